"""Commands that other packages bring: entry points of the group ``featuregate.commands``.

The name of the entry point is the command, and what it names is a module (or any object) like `Plugin`. Nothing is
looked up where the command is one of our own, so that these start no slower.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, Protocol

from featuregate.cli.exits import USAGE, CommandError
from featuregate.cli.output import complain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from featuregate.cli.lessons import Lesson

__all__ = ["GROUP", "Plugin", "find", "load_all"]

GROUP: Final = "featuregate.commands"


class Plugin(Protocol):
    """What an entry point of a command names. Importing it must be cheap: ``--help`` does it."""

    @property
    def LESSON(self) -> Lesson:  # noqa: N802 - a constant of a module
        """What ``--help`` says."""
        ...

    def add_options(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the command's own options and those about the cluster."""
        ...

    def run(self, args: argparse.Namespace, /) -> int:
        """Run the command and return an exit code of `featuregate.cli.exits`."""
        ...


def find(command: str) -> dict[str, Plugin]:
    """Return the plugin of this command by its name, and nothing where there is none.

    Raises
    ------
    CommandError
        There is one, and it cannot be loaded.
    """
    for entry in entry_points(group=GROUP, name=command):
        return {command: _load(entry)}
    return {}


def load_all(built_in: Collection[str]) -> dict[str, Plugin]:
    """Return every plugin by its name. One that cannot be loaded is told and left out; our own names stay ours."""
    found: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name in built_in or entry.name in found:
            continue
        try:
            found[entry.name] = _load(entry)
        except CommandError as error:
            complain(str(error))
    return found


def _load(entry: EntryPoint) -> Plugin:
    try:
        plugin: Plugin = entry.load()
        plugin.LESSON.summary  # noqa: B018 - whether it is one
    except Exception as error:  # whatever the module of another package may raise
        whose = f" of {entry.dist.name}" if entry.dist is not None else ""
        problem = f"the command {entry.name}{whose} cannot be loaded: {type(error).__name__}: {error}"
        raise CommandError(problem, USAGE) from error
    return plugin
