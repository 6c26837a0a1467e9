"""What a page takes from docstrings, as tables: a code host shows nothing else of them.

A page names classes and functions by directives of Sphinx. Their docstrings have the sections of numpydoc.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import reduce
from typing import Any, NamedTuple

NAMED = re.compile(
    r"^\.\. auto(?P<kind>class|exception|function|module):: (?P<name>[\w.]+)$"
    r"(?P<options>(?:\n +:[\w-]+:.*)*)(?P<inside>(?:\n+ +\.\. auto.*)*)",
    re.MULTILINE,
)
"""What a page takes from docstrings."""
RAISES = re.compile(
    r"\bRaises (?P<names>`\w+`(?:, `\w+`)*): (?P<text>(?:(?!\n\n|\bRaises `).)+)",
    re.DOTALL,
)
"""What stands in place of a section: sentences about errors, each up to the next one or the end of its paragraph."""
_SECTION = re.compile(r"^(?P<title>[A-Z]\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(
    r"^(?P<names>\S.*)\n(?P<text>(?:(?: +.*)?(?:\n|\Z))+)", re.MULTILINE
)


class Call(NamedTuple):
    """A class, function or method of a page."""

    name: str
    found: Any


def names_table(page: str) -> str:
    """Return the public names of a page, each with the first sentence of its docstring."""
    rows: dict[str, str] = {}
    for mark in NAMED.finditer(page):
        for each in _named_by(mark):
            rows[each.name] = sentence_of(inspect.getdoc(each.found) or "")
    return table(("name", "what it is"), ((f"`{name}`", rows[name]) for name in rows))


def calls_table(page: str) -> str:
    """Return the parameters of what a page names, with types, defaults and units, and the errors that they raise."""
    calls = calls_of(page)
    parameters = [row for call in calls for row in _parameters(call)]
    errors = [row for call in calls for row in _errors(call)]
    tables = (
        (("of", "parameter", "type", "default", "meaning"), parameters),
        (("of", "raises", "when"), errors),
    )
    return "\n\n".join(table(head, rows) for head, rows in tables if rows)


def calls_of(page: str) -> list[Call]:
    """Return what a page names, and the methods of it, each once."""
    calls = {
        call.name: call
        for mark in NAMED.finditer(page)
        for each in _named_by(mark)
        for call in (each, *_methods(each, mark))
    }
    return list(calls.values())


def _parameters(call: Call) -> Iterator[tuple[str, ...]]:
    """Yield a row for each parameter that the docstring describes; several that share a text share a row."""
    for names, text in _entries(call.found, "Parameters"):
        declared = inspect.signature(call.found).parameters
        known = [declared[name.lstrip("*")] for name in names.split(", ")]
        types = dict.fromkeys(str(one.annotation) for one in known)
        yield (
            f"`{_short(call.name)}`",
            ", ".join(f"`{one.name}`" for one in known),
            ", ".join(f"`{each}`" for each in types),
            ", ".join(dict.fromkeys(map(_default, known))),
            text,
        )


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        return "" if parameter.kind.name.startswith("VAR_") else "required"
    return f"`{getattr(parameter.default, '__qualname__', repr(parameter.default))}`"


def _errors(call: Call) -> Iterator[tuple[str, ...]]:
    for names, text in _entries(call.found, "Raises"):
        yield f"`{_short(call.name)}`", f"`{names}`", text
    for one in RAISES.finditer(inspect.getdoc(call.found) or ""):
        text = plain(one["text"])
        names = one["names"].replace("`", "")
        yield f"`{_short(call.name)}`", f"`{names}`", text[0].upper() + text[1:]


def _entries(found: Any, title: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the text of each entry of a section of a docstring."""
    parts = _SECTION.split(inspect.getdoc(found) or "")
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    for entry in _ENTRY.finditer(sections.get(title, "")):
        yield entry["names"], plain(entry["text"])


def _short(name: str) -> str:
    """Leave out the packages of a name: ``Discoverer.refresh``."""
    return re.sub(r"^(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", name)


def _methods(owner: Call, mark: re.Match[str]) -> Iterator[Call]:
    """Yield the methods that a directive documents of a class."""
    if not inspect.isclass(owner.found):
        return
    wanted = re.findall(r"auto(?:method|property):: (\w+)", mark["inside"])
    if members := re.search(r":members:(.*)", mark["options"]):
        wanted += members[1].replace(",", " ").split() or [
            name
            for name in vars(owner.found)
            if name[0] != "_" and name not in _left_out(mark)
        ]
    for name in wanted:
        if inspect.isfunction(found := getattr(owner.found, name, None)):
            yield Call(f"{owner.name}.{name}", found)


def _named_by(mark: re.Match[str]) -> Iterator[Call]:
    """Return what a directive of a page takes from docstrings."""
    found = _found(mark["name"], is_module=mark["kind"] == "module")
    if mark["kind"] != "module":
        yield Call(mark["name"], found)
    elif ":members:" in mark["options"]:
        own = [name for name, value in vars(found).items() if _is_own(value, found)]
        for name in getattr(found, "__all__", own):
            if callable(getattr(found, name)) and name not in _left_out(mark):
                yield Call(f"{mark['name']}.{name}", getattr(found, name))


def _left_out(mark: re.Match[str]) -> list[str]:
    return re.findall(r"\w+", mark["options"].partition("exclude-members:")[2])


def _is_own(value: Any, module: Any) -> bool:
    name = getattr(value, "__name__", "_")
    return getattr(value, "__module__", "") == module.__name__ and name[0] != "_"


def _found(name: str, *, is_module: bool) -> Any:
    """Return the object of a dotted name: a function may have the name of the module that it is from."""
    parts = name.split(".")
    for length in range(len(parts) - (not is_module), 0, -1):
        with suppress(ImportError):
            module = importlib.import_module(".".join(parts[:length]))
            return reduce(getattr, parts[length:], module)
    raise LookupError(name)


def sentence_of(docstring: str) -> str:
    """Return the first sentence of a docstring as Markdown, and whether the module is pure."""
    opening = "\n\n".join(docstring.split("\n\n")[:2])
    sentence, *_ = re.split(
        r"(?<=\w|\)|`)\.(?:\s|$)|\n\n", opening.replace("::", ""), maxsplit=1
    )
    pure = re.search(r"\bPure\b(?=[.:;,])", opening) and "pure" not in sentence
    return f"{plain(sentence)}; *pure*" if pure else plain(sentence)


def plain(text: str) -> str:
    """Return a text of a docstring as one line of Markdown, without roles."""
    titled = re.sub(r":\w+:`([^`<]+) <[^`]+>`", r"\1", text)
    without = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", titled)
    return " ".join(without.split()).replace("``", "`").replace("<", "\\<")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
        for line in lines
    )
