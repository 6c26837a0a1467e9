"""What ``--help`` teaches: words only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS_HELP", "DESCRIPTION", "EPILOG", "CommandHelp"]


class CommandHelp(NamedTuple):
    """The help of one command."""

    summary: str
    """Stands in the list of commands."""
    description: str
    """Stands at the top of its own page."""
    epilog: str
    """Examples and exit codes."""


DESCRIPTION = """\
Ask every broker of an Apache Kafka cluster what it can do, and whether that is enough; and change what is finalized.\
"""

EPILOG = """\
examples:
  featuregate --bootstrap-server localhost:9092 describe
  featuregate matrix --bootstrap-server localhost:9092
  featuregate check kip447 --bootstrap-server localhost:9092 && echo "one producer per process is safe"
  featuregate doctor --bootstrap-server kafka.example.com:9093 --command-config client.properties
  featuregate plan upgrade --release-version 4.2 --bootstrap-server localhost:9092

Options about the cluster may stand before the command or after it.

exit codes:
  0    done (check: open; doctor: nothing is wrong)
  1    check: closed; doctor: an error was found; plan: refused; commands of kafka-features: it failed
  2    nobody answered, or too few to tell (doctor: warnings only)
  64   the command line, the configuration or the requirement is wrong
  130  interrupted (watch ends with 0)

'featuregate COMMAND --help' teaches each command.\
"""

COMMANDS_HELP = {
    "describe": CommandHelp(
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
    "matrix": CommandHelp(
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
    "check": CommandHelp(
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
    "explain": CommandHelp(
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
    "watch": CommandHelp(
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
    "doctor": CommandHelp(
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
    "plan": CommandHelp(
        "say what an update of features would do; changes nothing",
        """\
Say what the controller would say to an upgrade, a downgrade or a disable, by its own rules and in its own words: what
every registered broker can run, levels on the way that changed the metadata, what a level depends on. Say also which
presets it opens and closes, and whether it affects an app that has switched for good: name such apps by --latches, the
folder of their FileLatchStore, or by --gate.

It needs no right on the cluster. It is a forecast; 'upgrade --dry-run' asks the controller itself.\
""",
        """\
examples:
  featuregate plan upgrade --release-version 4.2 --bootstrap-server localhost:9092
  featuregate plan downgrade --feature metadata.version=27 --bootstrap-server localhost:9092
  featuregate plan disable --feature group.version --latches /var/lib/app --bootstrap-server localhost:9092
  featuregate plan disable --feature group.version --gate next=kip848 --bootstrap-server localhost:9092
  featuregate plan upgrade --release-version 4.2 --bootstrap-server localhost:9092 --controllers localhost:9093

exit codes: 0 it would be accepted, 1 refused, or it would affect a named app, 2 unknown, 64 wrong usage\
""",
    ),
    "upgrade": CommandHelp(
        "raise finalized levels, as kafka-features does",
        """\
Raise finalized levels: each that --feature names, or all that go with a release. Needs ALTER on the cluster.

From Kafka 4.0 on, one refusal stops all; before, each feature stands by itself. The output is that of kafka-features.\
""",
        """\
examples:
  featuregate --bootstrap-server localhost:9092 upgrade --release-version 4.2 --dry-run
  featuregate --bootstrap-server localhost:9092 upgrade --release-version 4.2 --wait 30
  featuregate --bootstrap-server localhost:9092 upgrade --feature group.version=1 --feature transaction.version=2
  featuregate upgrade --feature share.version=1 --bootstrap-server localhost:9092 --output json

exit codes: 0 done, 1 anything else, as in kafka-features\
""",
    ),
    "downgrade": CommandHelp(
        "lower finalized levels, as kafka-features does",
        """\
Lower finalized levels. Needs ALTER on the cluster. On a terminal it shows the plan and asks first.

metadata.version goes down only where no level on the way changed the metadata; --unsafe changes nothing about that,
because no release of Kafka carries out an unsafe downgrade of it.\
""",
        """\
examples:
  featuregate --bootstrap-server localhost:9092 downgrade --feature metadata.version=27 --dry-run
  featuregate --bootstrap-server localhost:9092 downgrade --feature transaction.version=1 --yes --wait 30

exit codes: 0 done, 1 anything else, as in kafka-features\
""",
    ),
    "disable": CommandHelp(
        "lower features to 0, as kafka-features does",
        """\
Lower features to level 0. Needs ALTER on the cluster. On a terminal it shows the plan and asks first.\
""",
        """\
examples:
  featuregate --bootstrap-server localhost:9092 disable --feature share.version --dry-run
  featuregate --bootstrap-server localhost:9092 disable --feature share.version --yes

exit codes: 0 done, 1 anything else, as in kafka-features\
""",
    ),
    "upgrade-all": CommandHelp(
        "raise every feature to a release: KIP-584's verb for upgrade --release-version",
        """\
Raise every feature to the levels of a release: by default of the newest that every broker which answers can run, and
with ZooKeeper to the highest level that every broker can run.
It is 'upgrade --release-version VERSION' by the name and with the output that KIP-584 gave it. Sent is what moves, and
can: a line on standard error says what is left out, and why.\
""",
        """\
examples:
  featuregate --bootstrap-server localhost:9092 upgrade-all --dry-run
  featuregate --bootstrap-server localhost:9092 upgrade-all --release-version 4.2 --wait 30

exit codes: 0 done, 1 anything else\
""",
    ),
    "downgrade-all": CommandHelp(
        "lower every feature to a release: KIP-584's verb for downgrade --release-version",
        """\
Lower every feature to the levels of a release. It is 'downgrade --release-version VERSION' by the name and with the
output that KIP-584 gave it. Sent is what moves, and can: features that are lower already and kraft.version, which never
goes down, are left out. On a terminal it shows the plan and asks first.\
""",
        """\
examples:
  featuregate --bootstrap-server localhost:9092 downgrade-all --release-version 4.1 --dry-run

exit codes: 0 done, 1 anything else\
""",
    ),
    "version-mapping": CommandHelp(
        "print the level of each feature at a release, as kafka-features does",
        """\
Print the level of each feature that goes with a release or a metadata.version. No cluster is asked.

What kafka-features 4.3 knows it knows; beyond that, releases of our own table.\
""",
        """\
examples:
  featuregate version-mapping
  featuregate version-mapping --release-version 4.2
  featuregate version-mapping --release-version 4.4 --output json

exit codes: 0 done, 1 anything else, as in kafka-features\
""",
    ),
    "feature-dependencies": CommandHelp(
        "print what levels of features depend on, as kafka-features does",
        """\
Print which levels of other features the controller asks for first. No cluster is asked.\
""",
        """\
examples:
  featuregate feature-dependencies --feature eligible.leader.replicas.version=1
  featuregate feature-dependencies --feature group.version=1 --feature metadata.version=29

exit codes: 0 done, 1 anything else, as in kafka-features\
""",
    ),
    "completion": CommandHelp(
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
