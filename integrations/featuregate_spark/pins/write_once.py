"""Write-once files beside a query's checkpoint: the first writer wins, and all others read what it wrote."""

from __future__ import annotations

from typing import Protocol

__all__ = ["WriteOnceFiles"]


class WriteOnceFiles(Protocol):
    """A checkpoint folder, as far as this package uses it. Names are relative to it: ``featuregate/pin-5``."""

    def read(self, name: str) -> str | None:
        """Return what is there, None where nothing is."""
        ...

    def write(self, name: str, text: str) -> str:
        """Write it where nothing is there yet; return what is there then."""
        ...

    def names(self, folder: str) -> list[str]:
        """Name the files of a folder; none where there is no such folder."""
        ...

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, where it is there."""
        ...
