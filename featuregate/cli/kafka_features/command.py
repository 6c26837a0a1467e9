"""``kafka-features-py``: a drop-in for the ``kafka-features`` of Apache Kafka 4.3, without a JVM.

The argument lists, standard output and exit codes are those of kafka-features. Standard error differs in one place:
kafka-features prints a usage error through ``printf``, and without a newline at its end. Source: ``FeatureCommand`` of
Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from featuregate.cli.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, OK, CommandError
from featuregate.cli.kafka_features.argparse4j import COMMANDS, TOOL, HelpRequested, Parsed, UsageError, parse
from featuregate.cli.output import OUTPUT_ERRORS, discard_output, hide_userinfo, print_stderr
from featuregate.errors import FeatureGateError

_NO_CLUSTER: Final = "You must specify either --bootstrap-controller or --bootstrap-server."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 for success and for help, 1 for any failure."""
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        except HelpRequested as request:
            print(help_text(request.command), end="")
            return OK
        finally:
            if sys.stdout is not None:  # None where the process was started with it closed
                sys.stdout.flush()
    except UsageError as error:
        print_stderr(f"Command line error: {hide_userinfo(str(error))}. Type --help for help.")
    except (CommandError, FeatureGateError) as error:
        print_stderr(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        discard_output()
        print_stderr(f"kafka-features-py: the output could not be written: {error.strerror}")
    return FAILED


def _run(argv: Sequence[str]) -> int:
    # Each command imports what it needs: a lookup asks no cluster, and describe changes nothing.
    parsed = parse(argv)
    if parsed.command in {"version-mapping", "feature-dependencies"}:
        for line in _look_up(parsed):
            print(line)
        return OK
    if not {"bootstrap_server", "bootstrap_controller"} & parsed.values.keys():
        from featuregate.cli.kafka_features.client import read_file  # noqa: PLC0415

        read_file(parsed.values.get("command_config"))
        raise UsageError(_NO_CLUSTER)
    if parsed.command == "describe":
        from featuregate.cli.kafka_features.describing import describe  # noqa: PLC0415

        print(describe(parsed.values), end="")
    else:
        from featuregate.cli.kafka_features.changing import change  # noqa: PLC0415

        change(parsed)
    return OK


def _look_up(parsed: Parsed) -> Iterator[str]:
    """Yield the lines, of which those before a level that is not found are printed, too."""
    from featuregate.cli.commands.lookup import dependencies, dependency_lines, mapping_lines  # noqa: PLC0415

    if parsed.command == "version-mapping":
        yield from mapping_lines(parsed.values.get("release_version"))
    for text in parsed.values.get("feature", ()):
        yield from dependency_lines(dependencies(text, newer=False))


_TOOL: Final = "kafka-features"
_MEANINGS: Final = {
    "help": "show this help message and exit",
    "bootstrap_server": "brokers to start from: HOST:PORT, separated by commas",
    "bootstrap_controller": "KRaft controllers to start from, instead of brokers",
    "command_config": "a .properties file for the client, with security.protocol, ssl.* and sasl.*",
    "node_id": "ask the node with this id (default: any)",
    "metadata": "deprecated: the metadata.version, such as 3.9-IV0",
    "release_version": "a release (4.2) or a metadata.version (4.2-IV1), for the levels of all features",
    "unsafe": "request an unsafe downgrade; no release of Kafka carries one out for metadata.version",
    "dry_run": "ask the controller whether it would; change nothing",
}
_FEATURE: Final = {
    "disable": "the name of a feature to disable; may be repeated",
    "feature-dependencies": "a level to look up, as name=level; may be repeated; required",
}
_COMMANDS: Final = {
    "describe": "show supported and finalized levels",
    "upgrade": "raise finalized levels",
    "downgrade": "lower finalized levels",
    "disable": "lower features to 0",
    "version-mapping": "show the level of each feature at a release; asks no cluster",
    "feature-dependencies": "show which levels a level depends on; asks no cluster",
}


def help_text(command: str | None) -> str:
    """Return the help of the tool, or of one of its commands."""
    if command is None:
        commands = [f"  {name:<22}{meaning}" for name, meaning in _COMMANDS.items()]
        head = [f"usage: {_TOOL} [options] COMMAND [options of the command]", "", "commands:", *commands, ""]
    else:
        head = [f"usage: {_TOOL} [options] {command} [options of the command]", "", f"{_COMMANDS[command]}", ""]
    known = TOOL if command is None else COMMANDS[command]
    options = [f"  {', '.join(option.flags):<24}{_meaning(option.dest, command)}" for option in known]
    return "\n".join([*head, "options:", *options, ""])


def _meaning(dest: str, command: str | None) -> str:
    if dest == "feature":
        return _FEATURE.get(command or "", "a level, as name=level; may be repeated")
    return _MEANINGS[dest]
