"""The argument lists. Nothing is asked here, and nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from featuregate.cli import help_texts
from featuregate.cli.exit_codes import FAILED, FOLLOW_KAFKA_FEATURES, USAGE, CommandError
from featuregate.cli.feature_options import FEATURE_COMMANDS, FEATURE_MODULES
from featuregate.cli.options import add_cluster_options, add_output, named_requirement, positive_seconds
from featuregate.cli.output import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from featuregate.cli.plugin import Plugin

__all__ = [
    "Parser",
    "add_cluster_options",
    "add_describe_options",
    "build_parser",
    "every_plugin",
    "module_of",
    "no_bootstrap",
    "parse_arguments",
]


class Parser(argparse.ArgumentParser):
    """Says what is wrong as a `CommandError` rather than by exiting; never guesses what an abbreviation means."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would have printed."""
        raise _wrong(message, self.prog.rpartition(" ")[2])


def build_parser(extra: Mapping[str, Plugin]) -> Parser:
    """Return the parser of the whole command line, plugins included.

    ``args.command`` names the command; ``args.plugin`` is what runs it, or None where it is one of our own.
    """
    parser = Parser(prog=PROGRAM, description=help_texts.DESCRIPTION, epilog=help_texts.EPILOG)
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    add_cluster_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True)
    for name, add_options in _COMMANDS.items():
        page = help_texts.COMMANDS_HELP[name]
        command = commands.add_parser(name, help=page.summary, description=page.description, epilog=page.epilog)
        add_options(command)
        command.set_defaults(plugin=None)
    for name, plugin in extra.items():
        page = plugin.HELP
        command = commands.add_parser(name, help=page.summary, description=page.description, epilog=page.epilog)
        plugin.add_options(command)
        command.set_defaults(plugin=plugin)
    return parser


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse; raises `CommandError` with the one line to print. ``--help`` and ``--version`` leave by SystemExit."""
    args, strange = build_parser(_plugins_for(argv)).parse_known_args(argv)
    if strange:
        raise _wrong(f"unrecognized arguments: {' '.join(strange)}", args.command)
    if args.bootstrap_server is not None and args.bootstrap_controller is not None:
        # Each group of options rules the pair out for itself; this is one before the command, one after it.
        raise _wrong("argument --bootstrap-controller: not allowed with argument --bootstrap-server", args.command)
    return args


def module_of(command: str) -> str:
    """Return the name of the module in this package that runs one of our own commands."""
    return FEATURE_MODULES.get(command, command)


def every_plugin() -> dict[str, Plugin]:
    """Load all plugins, for lists of all commands."""
    from featuregate.cli import plugin_loader  # noqa: PLC0415 - our own commands do without

    return plugin_loader.load_all(_COMMANDS)


def _plugins_for(argv: Sequence[str]) -> dict[str, Plugin]:
    command = _command_of(argv)
    if command in _COMMANDS:
        return {}
    if command is None or any(word in {"-h", "--help"} for word in argv[: argv.index(command)]):
        return {} if "--version" in argv else every_plugin()
    from featuregate.cli import plugin_loader  # noqa: PLC0415 - see every_plugin

    return plugin_loader.find(command) or every_plugin()  # to name them all where there is none like it


def _command_of(argv: Sequence[str]) -> str | None:
    """Return the word that names the command; what is wrong elsewhere, the whole parser tells."""
    parser = Parser(prog=PROGRAM, add_help=False)
    add_cluster_options(parser)
    parser.add_argument("command", nargs="?")
    try:
        command: str | None = parser.parse_known_args(argv)[0].command
    except CommandError:
        return None
    return command


def no_bootstrap(command: str) -> CommandError:
    """Return the error that nobody says where the cluster is, in kafka-features' words."""
    return _wrong("You must specify either --bootstrap-controller or --bootstrap-server", command)


def _wrong(message: str, command: str) -> CommandError:
    return CommandError(f"{message}. Type --help for help.", FAILED if command in FOLLOW_KAFKA_FEATURES else USAGE)


def add_describe_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``describe`` takes, in kafka-features and here."""
    parser.add_argument(
        "--node-id", metavar="N", type=int, help="ask the node of this id, and no other (default: ask all, and merge)"
    )
    parser.add_argument(
        "--style",
        choices=("columns", "legacy"),
        default="columns",
        help="columns: as kafka-features 4.3 prints; legacy: with tabs, as 3.3 to 4.2 print (default: columns)",
    )
    add_output(parser, "the text of kafka-features, or the whole view as JSON")


def _describe(parser: argparse.ArgumentParser) -> None:
    add_describe_options(parser)
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _matrix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="show the APIs on which all brokers agree, too")
    add_output(parser, "a table, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "requirement", metavar="REQUIREMENT", help='a preset, such as kip447, or a text: "group.version>=1 & Fetch>=12"'
    )
    parser.add_argument(
        "--wait", metavar="SECONDS", type=positive_seconds, help="ask again until it is open, for so long at the most"
    )
    add_output(parser, "sentences, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", metavar="PRESET", nargs="?", help="such as kip447")
    parser.add_argument("--list", action="store_true", help="name every preset")
    add_output(parser, "sentences, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gate",
        metavar="NAME=REQUIREMENT",
        dest="gates",
        action="append",
        default=[],
        type=named_requirement,
        help="say when this opens and closes; may be repeated",
    )
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=5.0,
        help="between polls of a quiet cluster; less while it changes (default: 5)",
    )
    parser.add_argument(
        "--for", metavar="SECONDS", dest="duration", type=positive_seconds, help="stop after so long (default: never)"
    )
    add_output(parser, "one line for each change, or one JSON object on a line")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _doctor(parser: argparse.ArgumentParser) -> None:
    add_output(parser, "sentences, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


_COMMANDS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "describe": _describe,
    "matrix": _matrix,
    "check": _check,
    "explain": _explain,
    "watch": _watch,
    "doctor": _doctor,
    **FEATURE_COMMANDS,
    "completion": _completion,
}


def _version() -> str:
    import featuregate  # noqa: PLC0415 - the package is being imported when this module is

    return featuregate.__version__
