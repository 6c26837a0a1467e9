"""An import contract: a module whose docstring begins with a paragraph that says "Pure" reaches nothing impure.

The docstring of a package speaks for all modules in it. ``lint-imports`` loads this file, see ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from grimp import ImportGraph

SAYS_SO = re.compile(r"\bPure\b(?=[.:;,])")


def says_pure(source: str) -> bool:
    """Return whether a module says that it is pure, in the first two paragraphs of its docstring."""
    opening = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")[:2]
    return any(SAYS_SO.search(paragraph) for paragraph in opening)


def pure_modules(sources: Iterable[tuple[str, str]]) -> list[str]:
    """Return which of these modules, each with its source, say that they are pure or are in a package that does."""
    sources = list(sources)
    saying = {name for name, source in sources if says_pure(source)}
    return sorted(name for name, _ in sources if any(name == each or name.startswith(f"{each}.") for each in saying))


class PureModules(Contract):
    """Pure modules import none of ``impure``, directly or through others."""

    type_name = "pure"
    roots = fields.ListField(subfield=fields.StringField())
    impure = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the library's signature
        """Look for a chain of imports from each pure module to each impure one."""
        roots: list[str] = self.roots  # type: ignore[assignment]
        impure: list[str] = self.impure  # type: ignore[assignment]
        modules = pure_modules(
            (name, path.read_text()) for root in roots for name, path in _files(root) if name in graph.modules
        )
        known = sorted(set(impure) & graph.modules)
        chains = [
            chain
            for module in modules
            for other in known
            if (chain := graph.find_shortest_chain(importer=module, imported=other))
        ]
        return ContractCheck(kept=not chains, metadata={"chains": chains})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each chain."""
        for chain in check.metadata["chains"]:
            output.print_error(" -> ".join(chain))


def _files(root: str) -> Iterable[tuple[str, Path]]:
    spec = find_spec(root)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
