"""Load the commands of other packages, and what they know of updates: see `featuregate.cli.plugin`.

Nothing is loaded for a built-in command, unless it is asked for evidence or for another system.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.exit_codes import CommandError
from featuregate.cli.output import print_message

if TYPE_CHECKING:
    from featuregate.cli.plugin import Diagnosis, EvidenceCheck, Plugin

GROUP: Final = "featuregate.commands"
CHECKS: Final = "featuregate.checks"
DIAGNOSES: Final = "featuregate.diagnoses"


def find(command: str) -> dict[str, Plugin]:
    """Return the plugin of this command by its name, or an empty dict. Raises `CommandError` if it cannot be loaded."""
    for entry in entry_points(group=GROUP, name=command):
        return {command: _load("command", entry, "HELP.summary")}
    return {}


def load_all(built_in: Collection[str]) -> dict[str, Plugin]:
    """Return every plugin by its name. Built-in names win; a plugin that cannot be loaded is reported and left out."""
    plugins: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name in built_in or entry.name in plugins:
            continue
        try:
            plugins[entry.name] = _load("command", entry, "HELP.summary")
        except CommandError as error:
            print_message(str(error))
    return plugins


def load_check() -> EvidenceCheck | None:
    """Return what checks updates against evidence, from the first package that has it; None without one.

    Raises `CommandError` where it cannot be loaded.
    """
    found = sorted(entry_points(group=CHECKS))
    check: EvidenceCheck | None = _load("check", found[0], "check_updates") if found else None
    return check


def load_diagnosis(name: str) -> Diagnosis | None:
    """Return what ``doctor`` asks about another system, such as ``spark``; None where no package has it.

    Raises `CommandError` where it cannot be loaded.
    """
    found = [*entry_points(group=DIAGNOSES, name=name)]
    diagnosis: Diagnosis | None = _load("diagnosis", found[0], "diagnose") if found else None
    return diagnosis


def _load(what: str, entry: EntryPoint, needed: str) -> Any:
    """Load an object that has what is needed. An error names the package, whose modules may raise anything."""
    try:
        found = entry.load()
        attrgetter(needed)(found)
    except Exception as error:
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        problem = f"{type(error).__name__}: {error}"
        raise CommandError(f"the {what} {entry.name}{package} cannot be loaded: {problem}") from error
    return found
