"""Where holds come from: the environment of the process, and a file that is read before each decision."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from featuregate.budgets import MOST_HOLD_BYTES
from featuregate.files import local_path, read_regular_file
from featuregate.gating.holds import ALL_GATES, Hold, Holds, explained_holds, named_holds, written_holds
from featuregate.printable import shown

if TYPE_CHECKING:
    import os
    from pathlib import Path

HOLD: Final = "FEATUREGATE_HOLD"
"""The environment variable with the names of gates to hold, separated by commas."""
HOLD_FILE: Final = "FEATUREGATE_HOLD_FILE"
"""The environment variable with the path of a file of holds."""
_SIMILAR: Final = re.compile(r"feature_?gates?_?hold.*", re.IGNORECASE)


class HoldSources:
    """Reads the holds of one process: those of its environment once, those of the file each time."""

    def __init__(
        self, environment: Mapping[str, str], hold: Mapping[str, str] | str | os.PathLike[str] | None = None
    ) -> None:
        self._named = named_holds(environment.get(HOLD, ""), f"{HOLD} in the environment")
        self._named += Holds(tuple(_misnamed(environment)))
        named = environment.get(HOLD_FILE, "")
        files: list[str | os.PathLike[str]] = [named] if named.strip() else []
        if isinstance(hold, Mapping):
            self._named += explained_holds(hold, "the configuration")
        elif hold is not None:
            files.append(hold)
        # Absolute: a daemon changes the current folder, and the file that its name means there may hold nothing.
        self._files = tuple(dict.fromkeys(local_path("hold", file).absolute() for file in files))

    def read(self) -> Holds:
        """Return the holds that count now. A file that cannot be read holds every gate: it might name each of them."""
        found = self._named
        for file in self._files:
            found += _read(file)
        return found.bounded()


def _misnamed(environment: Mapping[str, str]) -> Iterator[Hold]:
    """Yield a hold on every gate for each variable that means one of ours, and has another name."""
    for name, value in environment.items():
        if name not in (HOLD, HOLD_FILE) and value.strip() and _SIMILAR.fullmatch(name):
            advice = f"this variable is not read, so every gate is held: {HOLD} or {HOLD_FILE} is meant"
            yield Hold(ALL_GATES, advice, f"{shown(name)} in the environment")


def _read(file: Path) -> Holds:
    """Read a file of holds. A pipe would be empty at the second read, and release what it holds."""
    try:
        return written_holds(read_regular_file(file, MOST_HOLD_BYTES).decode("utf-8-sig"), str(file))
    except OSError as error:
        problem = error.strerror or str(error)
    except ValueError as error:
        problem = str(error)
    advice = f"the file cannot be read ({problem}), so every gate is held; an empty file holds none"
    return Holds((Hold(ALL_GATES, advice, str(file)),))
