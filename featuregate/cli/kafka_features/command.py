"""``kafka-features-py``: a drop-in for the ``kafka-features`` of Apache Kafka 4.3, without a JVM.

The argument lists, standard output and exit codes are those of kafka-features. Standard error differs in one place:
kafka-features prints a usage error through ``printf``, and without a newline at its end. Source: ``FeatureCommand`` of
Apache Kafka 4.3.1 (``org.apache.kafka.tools``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from featuregate.cli.commands.lookup import dependencies, dependency_lines, mapping_lines
from featuregate.cli.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, OK, CommandError
from featuregate.cli.kafka_features.argparse4j import HelpRequested, UsageError, parse
from featuregate.cli.kafka_features.help_text import help_text
from featuregate.cli.output import OUTPUT_ERRORS, discard_output, hide_userinfo, print_stderr
from featuregate.cli.updates.report import failure_count, lines
from featuregate.cli.updates.requested import DEPRECATION, UpdateOptions, updates_of
from featuregate.errors import FeatureGateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from featuregate.cli.kafka_features.argparse4j import Parsed

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
    parsed = parse(argv)
    if parsed.command == "version-mapping":
        print("\n".join(mapping_lines(parsed.values.get("release_version"))))
        return OK
    if parsed.command == "feature-dependencies":
        for text in parsed.values["feature"]:
            print("\n".join(dependency_lines(dependencies(text, newer=False))))
        return OK
    from featuregate.cli.kafka_features import client as kafka_client  # noqa: PLC0415 - lookups start without it

    if not {"bootstrap_server", "bootstrap_controller"} & parsed.values.keys():
        kafka_client.check_file(parsed.values.get("command_config"))
        raise UsageError(_NO_CLUSTER)
    client = kafka_client.Client.of(parsed.values)
    if parsed.command == "describe":
        print(client.describe(parsed.values.get("node_id")), end="")
        return OK
    return _change(parsed, client.update)


def _change(parsed: Parsed, update: Callable[..., dict[str, str]]) -> int:
    values = parsed.values
    options = UpdateOptions(
        verb=parsed.command,  # type: ignore[arg-type]  # the three commands that are left
        features=tuple(values.get("feature", ())),
        metadata=values.get("metadata"),
        release_version=values.get("release_version"),
        unsafe=values.get("unsafe", False),
    )
    if options.deprecated:
        print(DEPRECATION)
    updates = updates_of(options)
    dry_run = values.get("dry_run", False)
    errors = update(updates, dry_run=dry_run)
    print("\n".join(lines(options.verb, updates, errors, dry_run=dry_run)))
    if errors:
        raise CommandError(failure_count(updates, errors), FAILED)
    return OK
