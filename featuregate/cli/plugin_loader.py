"""Load the commands of other packages, and what they know of updates: see `featuregate.cli.plugin`.

Nothing is loaded for a built-in command, unless it is asked for evidence or for another system.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from featuregate.cli.exit_codes import USAGE, CommandError
from featuregate.cli.output import print_message

if TYPE_CHECKING:
    from featuregate.cli.plugin import Diagnosis, EvidenceCheck, Plugin

GROUP: Final = "featuregate.commands"
CHECKS: Final = "featuregate.checks"
DIAGNOSES: Final = "featuregate.diagnoses"


def find(command: str) -> dict[str, Plugin]:
    """Return the plugin of this command by its name, or an empty dict. Raises `CommandError` if it cannot be loaded."""
    for entry in entry_points(group=GROUP, name=command):
        return {command: _load(entry)}
    return {}


def load_all(built_in: Collection[str]) -> dict[str, Plugin]:
    """Return every plugin by its name. Built-in names win; a plugin that cannot be loaded is reported and left out."""
    plugins: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name in built_in or entry.name in plugins:
            continue
        try:
            plugins[entry.name] = _load(entry)
        except CommandError as error:
            print_message(str(error))
    return plugins


def load_check() -> EvidenceCheck | None:
    """Return what checks updates against evidence, from the first package that has it; None without one.

    Raises `CommandError` where it cannot be loaded.
    """
    for entry in sorted(entry_points(group=CHECKS)):
        with _named(f"the check {entry.name}", entry):
            check: EvidenceCheck = entry.load()
            check.check_updates  # noqa: B018 - an object without it is none
            return check
    return None


def load_diagnosis(name: str) -> Diagnosis | None:
    """Return what ``doctor`` asks about another system, such as ``spark``; None where no package has it.

    Raises `CommandError` where it cannot be loaded.
    """
    for entry in entry_points(group=DIAGNOSES, name=name):
        with _named(f"the diagnosis {name}", entry):
            diagnosis: Diagnosis = entry.load()
            return diagnosis
    return None


def _load(entry: EntryPoint) -> Plugin:
    with _named(f"the command {entry.name}", entry):
        plugin: Plugin = entry.load()
        plugin.HELP.summary  # noqa: B018 - an object without it is no plugin
    return plugin


@contextmanager
def _named(what: str, entry: EntryPoint) -> Iterator[None]:
    """Name the package in an error, because a module of another package may raise anything."""
    try:
        yield
    except Exception as error:
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        raise CommandError(f"{what}{package} cannot be loaded: {type(error).__name__}: {error}", USAGE) from error
