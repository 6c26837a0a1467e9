"""From an argument list to an exit code: run the command, and report how it failed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from featuregate.cli.arguments.commands import COMMANDS
from featuregate.cli.arguments.parser import parse_arguments
from featuregate.cli.exit_codes import (
    BROKEN_PIPE,
    FAILED,
    FOLLOW_KAFKA_FEATURES,
    INTERNAL,
    INTERRUPTED,
    IO_ERROR,
    UNKNOWN,
    USAGE,
    CommandError,
)
from featuregate.cli.output import OUTPUT_ERRORS, discard_output, print_message
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    DiscoveryError,
    FeatureGateError,
    NetError,
    RequirementError,
)

if TYPE_CHECKING:
    import argparse


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Every failure becomes one line on standard error."""
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            if sys.stdout is not None:  # None where the process was started with it closed
                sys.stdout.flush()
    except CommandError as error:
        print_message(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    except OSError as error:
        discard_output()
        print_message(f"the output could not be written: {error.strerror}")
        return IO_ERROR


def _run(argv: Sequence[str]) -> int:
    args = parse_arguments(argv)
    if args.verbose:
        _show_log()
    runner = args.plugin or importlib.import_module(f"{__package__}.commands.{COMMANDS[args.command].module}")
    run: Callable[[argparse.Namespace], int] = runner.run
    try:
        return run(args)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS:
            raise
        if args.verbose and _exit_code_of(error) == INTERNAL:
            raise
        exit_code = FAILED if args.command in FOLLOW_KAFKA_FEATURES else _exit_code_of(error)
        raise CommandError(_message_of(error, args), exit_code) from error


def _exit_code_of(error: Exception) -> int:
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, ConfigError | RequirementError):
        return USAGE
    return UNKNOWN if isinstance(error, FeatureGateError) else INTERNAL


def _message_of(error: Exception, args: argparse.Namespace) -> str:
    if isinstance(error, DiscoveryError | NetError | AuthenticationFailed):
        from featuregate.cli.cluster import doctor_advice, has_cluster  # noqa: PLC0415 - only commands with a cluster need it

        return f"{error}; {doctor_advice(args)}" if has_cluster(args) else str(error)
    if isinstance(error, ConfigError):
        from featuregate.config.secrets import in_words_of  # noqa: PLC0415 - only errors need it

        listed = args.command in COMMANDS and COMMANDS[args.command].module != "change"
        return str(in_words_of(error, "--broker-list bootstrap" if listed else None))
    if isinstance(error, CommandError | FeatureGateError):
        return str(error)
    return f"this is a bug: {type(error).__name__}: {error} (--verbose shows where)"


def _show_log() -> None:
    import logging  # noqa: PLC0415 - only --verbose pays for it

    logging.basicConfig(
        level=logging.DEBUG, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
