"""Downloads that are refused where a checksum does not fit: by default jgo warns, and goes on."""

from __future__ import annotations

import hashlib
import json
import logging
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MISMATCH: Final = "Checksum mismatch"


def known_sums() -> Mapping[str, str]:
    """Return the SHA-256 of each jar that this package names itself, by the name of the file."""
    sums: dict[str, str] = json.loads(files("featuregate.jars").joinpath("sha256.json").read_text())
    return sums


def verified_resolver(sums: Mapping[str, str] | None = None) -> Any:
    """Return a resolver of jgo that raises ValueError for a file that is not what its checksum says, and deletes it.

    A jar that this package names must have the SHA-256 of its table. Every file must have the SHA-1 that stands beside
    it in the repository, where there is one.
    """
    from jgo.maven import PythonResolver  # noqa: PLC0415 - an extra, needed only to download

    expected = known_sums() if sums is None else sums

    class Verified(PythonResolver):
        def download(self, artifact: Any) -> Path | None:
            warnings = _Warnings(artifact.filename)
            log = logging.getLogger("jgo")
            log.addHandler(warnings)
            try:
                path: Path | None = super().download(artifact)
            finally:
                log.removeHandler(warnings)
            if path is not None and (problem := warnings.mismatch or _difference(path, expected)):
                path.unlink()
                raise ValueError(problem)
            return path

    return Verified()


def _difference(path: Path, expected: Mapping[str, str]) -> str | None:
    wanted = expected.get(path.name)
    if wanted is None:
        return None
    with path.open("rb") as jar:
        found = hashlib.file_digest(jar, "sha256").hexdigest()
    if found == wanted:
        return None
    return f"{path.name} has the SHA-256 {found}, and must have {wanted}: the mirror does not serve the released file"


class _Warnings(logging.Handler):
    """Keeps the warning by which jgo says that a checksum does not fit."""

    def __init__(self, filename: str) -> None:
        super().__init__(logging.WARNING)
        self._begins = f"{_MISMATCH} for {filename}:"  # other threads download other files
        self.mismatch: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith(self._begins):
            self.mismatch = text
