"""Load the commands of other packages: see `featuregate.cli.plugin`. Nothing is loaded for a built-in command."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from featuregate.cli.exit_codes import USAGE, CommandError
from featuregate.cli.output import print_message

if TYPE_CHECKING:
    from collections.abc import Collection

    from featuregate.cli.plugin import Plugin

__all__ = ["GROUP", "find", "load_all"]

GROUP: Final = "featuregate.commands"


def find(command: str) -> dict[str, Plugin]:
    """Return the plugin of this command by its name, or an empty dict.

    Raises
    ------
    CommandError
        The plugin cannot be loaded.
    """
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


def _load(entry: EntryPoint) -> Plugin:
    try:
        plugin: Plugin = entry.load()
        plugin.HELP.summary  # noqa: B018 - an object without it is no plugin
    except Exception as error:  # a module of another package may raise anything
        package = f" of {entry.dist.name}" if entry.dist is not None else ""
        problem = f"the command {entry.name}{package} cannot be loaded: {type(error).__name__}: {error}"
        raise CommandError(problem, USAGE) from error
    return plugin
