"""``kafka-features-py``: a drop-in for the ``kafka-features`` of Apache Kafka 4.3, without a JVM.

Its argument lists, its standard output and its exit codes, and nothing of ours on top. Standard error is the same but
for two quirks of upstream, where a mistake in the argument list is printed through ``printf`` and without a newline at
its end. Source: ``FeatureCommand`` of Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from featuregate.cli.commands.lookup import dependencies, dependency_lines, mapping_lines
from featuregate.cli.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, OK, CommandError
from featuregate.cli.kafka_features.argparse4j import HelpWanted, Mistake, parse
from featuregate.cli.kafka_features.help_text import help_text
from featuregate.cli.output import OUTPUT_ERRORS, discard_output, hide_userinfo, print_stderr
from featuregate.cli.requested_updates import DEPRECATED, Wish, updates_of, warns
from featuregate.cli.update_report import failed, lines
from featuregate.errors import FeatureGateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from featuregate.cli.kafka_features.argparse4j import Parsed

__all__ = ["main"]

_NOWHERE: Final = "You must specify either --bootstrap-controller or --bootstrap-server."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 when it was done, and for help; 1 for everything else."""
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        except HelpWanted as wanted:
            print(help_text(wanted.command), end="")
            return OK
        finally:
            if sys.stdout is not None:  # as it is where the process was started with it closed
                sys.stdout.flush()
    except Mistake as mistake:
        print_stderr(f"Command line error: {hide_userinfo(str(mistake))}. Type --help for help.")
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
    parsed = parse(argv)
    if parsed.command == "version-mapping":
        print("\n".join(mapping_lines(parsed.values.get("release_version"))))
        return OK
    if parsed.command == "feature-dependencies":
        for text in parsed.values["feature"]:
            print("\n".join(dependency_lines(dependencies(text, newer=False))))
        return OK
    from featuregate.cli.kafka_features import client as kafka_client  # noqa: PLC0415 - the two above ask nobody, and start sooner

    if not {"bootstrap_server", "bootstrap_controller"} & parsed.values.keys():
        kafka_client.check_file(parsed.values.get("command_config"))
        raise Mistake(_NOWHERE)
    client = kafka_client.Client.of(parsed.values)
    if parsed.command == "describe":
        print(client.describe(parsed.values.get("node_id")), end="")
        return OK
    return _change(parsed, client.update)


def _change(parsed: Parsed, update: Callable[..., dict[str, str]]) -> int:
    values = parsed.values
    wish = Wish(
        verb=parsed.command,  # type: ignore[arg-type]  # the three that are left
        features=tuple(values.get("feature", ())),
        metadata=values.get("metadata"),
        release_version=values.get("release_version"),
        unsafe=values.get("unsafe", False),
    )
    if warns(wish):
        print(DEPRECATED)
    updates = updates_of(wish)
    dry_run = values.get("dry_run", False)
    errors = update(updates, dry_run=dry_run)
    print("\n".join(lines(wish.verb, updates, errors, dry_run=dry_run)))
    if errors:
        raise CommandError(failed(updates, errors), FAILED)
    return OK
