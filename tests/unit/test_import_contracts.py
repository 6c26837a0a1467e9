"""The import contracts in pyproject.toml: a new module, and a new folder, need one."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECKED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def folders(package: str) -> set[str]:
    """Return the names of a package and of the packages within it."""
    (root,) = [path for path in (ROOT / package, ROOT / "integrations" / package) if path.is_dir()]
    return {".".join(path.parent.relative_to(root.parent).parts) for path in root.rglob("__init__.py")}


def test_a_contract_names_every_module_of_each_folder() -> None:
    """So `make check` fails for a new module until a contract says what it may import."""
    exhaustive = [contract for contract in CHECKED["contracts"] if contract.get("exhaustive")]
    named = {container for contract in exhaustive for container in contract["containers"]}
    assert {folder for package in CHECKED["root_packages"] for folder in folders(package)} - named == set()
