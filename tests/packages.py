"""Packages that bring something for featuregate, as another project would install them."""

import sys
from pathlib import Path

import pytest


def install_package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, entry_points: str) -> None:
    """Put a package of one module with these entry points into a folder, and the folder on Python's path."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / f"{name}.py").write_text(module)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
