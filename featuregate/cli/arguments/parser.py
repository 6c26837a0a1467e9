"""From an argument list to the command and its options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from featuregate.cli.arguments.commands import COMMANDS
from featuregate.cli.arguments.help_texts import COMMANDS_HELP, DESCRIPTION, EPILOG, TASKS
from featuregate.cli.arguments.options import add_cluster_options, add_output
from featuregate.cli.exit_codes import CommandError, usage_error
from featuregate.cli.output import PROGRAM
from featuregate.patterns import pattern

if TYPE_CHECKING:
    from featuregate.cli.plugin import Plugin


_INVALID_CHOICE: Final = pattern(r"(?P<said>.*invalid choice: '(?P<word>[^']*)') \(choose from (?P<choices>.*)\)")

_ADDRESSES: Final = pattern(r"[^\s,/=]+:\d+(,[^\s,/=]+:\d+)*")
"""Brokers without the option that takes them."""
_UNMEASURED: Final = partial(argparse.RawDescriptionHelpFormatter, width=1000)
"""argparse asks for a formatter at each option. Measuring the terminal imports `shutil`, which takes 2 ms."""


class _ByTask(argparse.RawDescriptionHelpFormatter):
    """Groups the commands by what they are for."""

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no other name for it
            return super()._format_action(action)
        commands = {command.dest: command for command in self._iter_indented_subactions(action)}
        named = {name for names in TASKS.values() for name in names}
        more = tuple(name for name in commands if name not in named)
        if action.dest != "command":  # the actions of one command
            return "".join(map(self._format_action, commands.values()))
        tasks = {**TASKS, "more": more}
        self._indent()
        lists = ((task, [commands[name] for name in names if name in commands]) for task, names in tasks.items())
        text = "\n".join(f"  {task}:\n{''.join(map(self._format_action, found))}" for task, found in lists if found)
        self._dedent()
        return text


class Parser(argparse.ArgumentParser):
    """Raises `CommandError` instead of exiting, and accepts no abbreviated option."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", _UNMEASURED)
        super().__init__(*args, **options)

    def format_help(self) -> str:
        """Fit the help to the terminal."""
        if self.formatter_class is _UNMEASURED:
            self.formatter_class = _ByTask
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise the message that argparse would print, with similar words in place of all choices."""
        if (wrong := _INVALID_CHOICE.fullmatch(message)) is not None:
            choices = [choice.strip("' ") for choice in wrong["choices"].split(",")]
            if hint := _hint(wrong["word"], choices):
                message = wrong["said"] + hint
        raise usage_error(message, self.prog.rpartition(" ")[2])


def build_parser(plugins: Mapping[str, Plugin], *, only: str | None = None) -> Parser:
    """Return the parser of the whole command line; with ``only``, of a line that names that command.

    ``args.command`` is the name of the command; ``args.plugin`` its plugin, None for a built-in command.
    """
    parser = Parser(prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    add_cluster_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True)
    pages = COMMANDS_HELP | {name: plugin.HELP for name, plugin in plugins.items()}
    for name in pages if only is None else (only,):
        page, plugin = pages[name], plugins.get(name)
        command = commands.add_parser(name, help=page.summary, description=page.description, epilog=page.epilog)
        command.set_defaults(plugin=plugin)
        if plugin is not None:
            plugin.add_options(command)
            continue
        COMMANDS[name].add_options(command)
        if (output := COMMANDS[name].output) is not None:
            add_output(command, output)
            add_cluster_options(command, default=argparse.SUPPRESS)
    return parser


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse an argument list. ``--help`` and ``--version`` print, and raise SystemExit.

    Raises `CommandError`: the list is not valid; the error holds the one line to print.
    """
    parser = _parser_for(argv)
    first = argv[0].partition("=")[0] if argv else ""
    if first.startswith("-") and first not in parser._option_string_actions:  # noqa: SLF001 - see _options_of
        # argparse would take the word after it for the command.
        hint = _hint(first, _options_of(parser, "")) or "; options of a command follow the command"
        raise usage_error(f"unrecognized argument before the command: {first}{hint}", "")
    args, unrecognized = parser.parse_known_args(argv)
    if unrecognized:
        word = unrecognized[0]
        hint = f"; did you mean --bootstrap-server {word}?" if _ADDRESSES.fullmatch(word) else ""
        hint = hint or _hint(word.partition("=")[0], _options_of(parser, args.command))
        raise usage_error(f"unrecognized arguments: {' '.join(unrecognized)}{hint}", args.command)
    if args.bootstrap_server is not None and args.bootstrap_controller is not None:
        # argparse finds the pair where both stand on the same side of the command; here one stands on each side.
        raise usage_error("argument --bootstrap-controller: not allowed with argument --bootstrap-server", args.command)
    return args


def all_plugins() -> dict[str, Plugin]:
    """Load the commands of all other packages."""
    from featuregate.cli import plugin_loader  # noqa: PLC0415 - a built-in command starts without it

    return plugin_loader.load_all(COMMANDS)


def _hint(word: str, known: Iterable[str]) -> str:
    """Return what a misspelt word may mean; nothing where no known word resembles it."""
    from featuregate.catalog import close_to  # noqa: PLC0415 - only errors need the catalog

    close = close_to(word, known)
    return f"; did you mean {' or '.join(close)}?" if close and word not in close else ""


def _options_of(parser: Parser, command: str) -> Iterator[str]:
    """Yield the options of a command, with those that may stand before it."""
    for action in parser._actions:  # noqa: SLF001 - argparse lists them nowhere else
        yield from action.option_strings
        if isinstance(action.choices, dict) and command in action.choices:
            yield from _options_of(action.choices[command], "")


def _parser_for(argv: Sequence[str]) -> Parser:
    """Return the parser of the command that is named, else that of the whole line, which reports every mistake.

    A parser takes half a millisecond, and there are twenty.
    """
    command = _command_of(argv)
    if command is None or any(word in {"-h", "--help"} for word in argv[: argv.index(command)]):
        return build_parser({} if "--version" in argv else all_plugins())
    if command in COMMANDS:
        return build_parser({}, only=command)
    from featuregate.cli import plugin_loader  # noqa: PLC0415 - see all_plugins

    if found := plugin_loader.find(command):
        return build_parser(found, only=command)
    return build_parser(all_plugins())


def _command_of(argv: Sequence[str]) -> str | None:
    """Return the word that names the command, None where there is none or the options before it are wrong."""
    if argv and not argv[0].startswith("-"):
        return argv[0]
    parser = Parser(prog=PROGRAM, add_help=False)
    add_cluster_options(parser)
    parser.add_argument("command", nargs="?")
    try:
        command: str | None = parser.parse_known_args(argv)[0].command
    except CommandError:
        return None
    return command


def _version() -> str:
    import featuregate  # noqa: PLC0415 - this module is imported while the package is

    return featuregate.__version__
