"""What ``--help`` teaches: words only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DESCRIPTION", "EPILOG", "LESSONS", "Lesson"]


class Lesson(NamedTuple):
    """The help of one command."""

    summary: str
    """Stands in the list of commands."""
    description: str
    """Stands at the top of its own page."""
    epilog: str
    """Examples and exit codes."""


DESCRIPTION = """\
Ask every broker of an Apache Kafka cluster what it can do, and whether that is enough.\
"""

EPILOG = """\
examples:
  featuregate --bootstrap-server localhost:9092 describe
  featuregate matrix --bootstrap-server localhost:9092
  featuregate check kip447 --bootstrap-server localhost:9092 && echo "one producer per process is safe"
  featuregate doctor --bootstrap-server kafka.example.com:9093 --command-config client.properties

Options about the cluster may stand before the command or after it.

exit codes:
  0    done (check: open; doctor: nothing is wrong)
  1    check: closed; doctor: an error was found; describe: it failed, as in kafka-features
  2    nobody answered, or too few to tell (doctor: warnings only)
  64   the command line, the configuration or the requirement is wrong
  130  interrupted (watch ends with 0)

'featuregate COMMAND --help' teaches each command.\
"""

LESSONS = {
    "describe": Lesson(
        "print the features as kafka-features does",
        """\
Print the supported and finalized features, exactly as kafka-features 4.3 prints them.

kafka-features asks one broker. This asks all, and shows what holds for the cluster: the supported range is the one
that all brokers share, a feature that some broker lacks has no row, and levels and epoch are those of the broker with
the highest epoch. Where brokers differ or are silent, a note on standard error says so.\
""",
        """\
examples:
  featuregate --bootstrap-server localhost:9092 describe
  featuregate describe --bootstrap-server localhost:9092 --node-id 2
  featuregate describe --bootstrap-controller localhost:9093 --style legacy
  featuregate describe --bootstrap-server localhost:9092 --output json

exit codes: 0 done, 1 anything else, as in kafka-features\
""",
    ),
    "matrix": Lesson(
        "show brokers by features and APIs, and where they differ",
        """\
Show what each broker says: its features, and the ranges of the APIs that are not the same everywhere.

Brokers that say the same share a column. '*' marks a row in which they differ, '-' a thing that a broker lacks.
Silent brokers stand below, each with the reason.\
""",
        """\
examples:
  featuregate matrix --bootstrap-server localhost:9092
  featuregate matrix --bootstrap-server localhost:9092 --all --output json

exit codes: 0 every known broker answered, 2 some or all were silent, 64 wrong usage\
""",
    ),
    "check": Lesson(
        "say whether a requirement holds, and why",
        """\
Say whether the cluster meets a requirement, broker by broker.

A requirement is the name of a preset (see 'featuregate explain --list'), or a text: levels of features and versions
of APIs, joined with & and |, in brackets where needed. One silent broker is enough to make an API requirement unknown.\
""",
        """\
examples:
  featuregate check kip447 --bootstrap-server localhost:9092
  featuregate check "group.version>=1 & ConsumerGroupHeartbeat>=0" --bootstrap-server localhost:9092
  featuregate check "transaction.version>=2" --bootstrap-server localhost:9092 --wait 600   # until the roll is done

exit codes: 0 open, 1 closed, 2 unknown, 64 wrong usage\
""",
    ),
    "explain": Lesson(
        "say what a preset requires, where that comes from, and what it does not prove",
        """\
Say what a preset requires, where that comes from, and what it does not prove.

With a cluster given, say also whether that cluster meets it.\
""",
        """\
examples:
  featuregate explain --list
  featuregate explain kip848
  featuregate explain kip848 --bootstrap-server localhost:9092

exit codes: 0 explained, 64 no such preset; with a cluster those of check: 0 open, 1 closed, 2 unknown\
""",
    ),
    "watch": Lesson(
        "print a line for each change, live",
        """\
Ask again and again, and print one line for each change: a broker that went silent or came back with other software,
a level that rose or fell, a gate that opened or closed. An epoch that merely rises is no change.

Gates are live here: they are open only while the cluster proves them.\
""",
        """\
examples:
  featuregate watch --bootstrap-server localhost:9092
  featuregate watch --bootstrap-server localhost:9092 --gate eos=kip447 --gate "next=group.version>=1"
  featuregate watch --bootstrap-server localhost:9092 --output json --for 60

exit codes: 0 stopped by Ctrl-C or by --for, 2 nobody ever answered, 64 wrong usage\
""",
    ),
    "doctor": Lesson(
        "say what is wrong with this cluster or this configuration",
        """\
Look for what is wrong, and say it in plain words: in the configuration, on the way to each bootstrap address
(name, port, TLS, authentication, the kind of listener), and in the cluster (silent brokers, mixed releases,
features that are finalized below what all brokers support, an epoch that stands still).

It asks twice, two seconds apart, because an epoch that stands still shows only in time.\
""",
        """\
examples:
  featuregate doctor --bootstrap-server localhost:9092
  featuregate doctor --command-config client.properties --bootstrap-server kafka.example.com:9093 --output json

exit codes: 0 nothing is wrong (there may be notes), 1 at least one error, 2 at least one warning, 64 wrong usage\
""",
    ),
    "completion": Lesson(
        "print a completion script for your shell",
        """\
Print a script that completes the options of featuregate in your shell. Needs the extra 'cli'.\
""",
        """\
examples:
  featuregate completion bash > ~/.local/share/bash-completion/completions/featuregate
  featuregate completion zsh > ~/.zfunc/_featuregate
  featuregate completion tcsh > ~/.featuregate.completion.csh

exit codes: 0 printed, 64 the extra is missing or the shell is unknown\
""",
    ),
}
