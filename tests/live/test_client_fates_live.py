"""What readiness says of a client before an upgrade is what becomes of it: 50 configurations, 3.9.2 to 4.2.0.

The verdicts are from a log that has only steady calls: those of a client that starts, joins a group or looks up an
offset are left out of it. The fates are those on the upgraded broker, with new groups, members that share partitions,
offsets that are reset, topics that are created and grown, and logins.
"""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import client_installers
import clients as measuring
import pytest
from client_brokers import RecordedBroker

from featuregate.jars.maven import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from client_installers import Installed

pytestmark = [pytest.mark.proof("clients"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(3600)]

BEFORE, AFTER = "3.9.2", "4.2.0"
CORE = ("produce", "consume", "commit", "offsets", "rebalance")
SCRAM = "sasl-SCRAM-SHA-512"
STEADY = frozenset({"PRODUCE", "FETCH", "METADATA", "OFFSET_COMMIT", "HEARTBEAT"})
"""What a client calls that runs for days, with committed offsets and without a rebalance."""
WORST = ("ok", "warn", "stale", "unknown", "block")
AT_A_TIME = 4


class Configuration(NamedTuple):
    """A client as an app uses it."""

    client: str
    version: str
    settings: Mapping[str, str] = {}
    steps: tuple[str, ...] = (*CORE, "admin")

    @property
    def name(self) -> str:
        """What its client ids begin with."""
        others = [step.lower() for step in self.steps if step in {SCRAM, "transactions"}]
        return "-".join([self.client, self.version, *self.settings.values(), *others])


def plain(client: str, *versions: str, **settings: str) -> list[Configuration]:
    """Return configurations of a listener without logins."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    return [Configuration(client, version, own) for version in versions]


def pinned(client: str, version: str, *pins: str) -> list[Configuration]:
    """Return configurations with ``api_version``, whose name has an underscore."""
    return [Configuration(client, version, {"api_version": pin}) for pin in pins]


def login(client: str, *versions: str) -> list[Configuration]:
    """Return configurations that log in with SCRAM and produce."""
    return [Configuration(client, version, steps=(SCRAM,)) for version in versions]


KNOWN = [
    *plain("confluent-kafka", "2.16.1", "1.5.0", "1.0.1", "0.11.6"),
    Configuration("confluent-kafka", "2.16.1", steps=(*CORE, "transactions")),
    *plain("confluent-kafka", "2.16.1", api_version_request="false", broker_version_fallback="0.9.0.1"),
    *plain("confluent-kafka", "2.16.1", broker_version_fallback="0.10.2"),
    *plain("confluent-kafka-go", "1.4.2"),
    *plain("kafka-python", "3.0.12", "2.0.2", "1.4.7"),
    *pinned("kafka-python", "2.0.2", "0.10.2", "0.10.1"),
    *plain("kafka-clients", "0.11.0.3", "2.0.1", "3.9.0"),
    *plain("franz-go", "1.22.3"),
    *plain("franz-go", "1.22.3", max_versions="0.11.0"),
    *plain("franz-go", "1.22.3", max_versions="2.0"),
    *plain("sarama", "1.61.1"),
    *plain("sarama", "1.61.1", version="0.10.2.0"),
    *plain("sarama", "1.27.2", version="1.0.0"),
    *plain("sarama", "1.27.2", version="1.1.0"),
    *plain("sarama", "1.27.2", version="2.0.0"),
    *plain("kafka-go", "0.4.51"),
    *plain("kafkajs", "2.2.4", "1.15.0"),
    *plain("kafka-node", "5.0.0"),
]
"""The 28 whose fates were seen first by hand."""
MORE = [
    *login("confluent-kafka", "2.16.1", "2.6.1", "2.6.0", "2.0.2", "1.9.2", "1.5.0"),
    *login("kafka-python", "3.0.12", "2.2.21", "2.0.2"),
    *login("aiokafka", "0.14.0", "0.9.0", "0.8.1"),
    *login("kafka-clients", "0.11.0.3", "2.0.1", "3.9.0", "4.4.0"),
    *login("franz-go", "1.22.3"),
    *login("kafka-go", "0.4.51"),
    *login("kafkajs", "2.2.4", "1.15.0"),
    *plain("aiokafka", "0.14.0", "0.8.1"),
]
CONFIGURATIONS = [*KNOWN, *MORE]


class Fate(NamedTuple):
    """What was said of a configuration, and what became of it."""

    verdict: str
    before: Mapping[str, str]
    after: Mapping[str, str]


@pytest.fixture(scope="module")
def fates(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fate]:
    """Run the chosen configurations on a broker of 3.9.2, ask for the verdicts, upgrade it, and run them again."""
    folder = tmp_path_factory.mktemp("fates")
    chosen = {item.name for item in request.session.items}
    configurations = [
        each for each in CONFIGURATIONS if f"{test_the_verdict_is_the_fate.__name__}[{each.name}]" in chosen
    ]
    installed = [(each, found) for each in configurations if (found := of_cache(each))]
    with RecordedBroker(BEFORE, {"kafka.request.logger": "DEBUG"}) as broker:
        before = run_all(installed, broker, "before")
        logs = folder / "logs" / "1"
        logs.mkdir(parents=True)
        steady = [line for line in broker.kafka.node(1).log.read_text().splitlines() if is_steady(line)]
        (logs / "server.log").write_text("\n".join([*steady, ""]))
        verdicts = verdicts_of(folder, broker.kafka.internal_bootstrap)
        broker.kafka.roll(1, AFTER)
        after = run_all(installed, broker, "after")
    return {name: Fate(verdicts.get(name, "no row"), before[name], after[name]) for name in before}


def of_cache(wanted: Configuration) -> Installed | None:
    """Install a client where the last run has installed it."""
    found = client_installers.install(wanted.client, wanted.version, cache_folder() / "clients", to_run=True)
    return found.with_settings(wanted.settings) if found and wanted.settings else found


def run_all(
    installed: Sequence[tuple[Configuration, Installed]], broker: RecordedBroker, when: str
) -> dict[str, dict[str, str]]:
    """Run each configuration; return what became of its steps, by its name.

    What failed is run once more, and alone: a client has seconds, and the machine may be busy.
    """

    def fates_of(wanted: Configuration, client: Installed, again: str, steps: Sequence[str]) -> dict[str, str]:
        found = measuring.attempt(client, broker, f"{wanted.name}-{when}{again}", steps)
        return {step: outcome["fate"] for step, outcome in found.items()}

    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = {
            each.name: pool.submit(
                fates_of, each, client, "", [step for step in each.steps if step not in client.without]
            )
            for each, client in installed
        }
    assert not [error for one in running.values() if (error := one.exception())]
    found = {name: one.result() for name, one in running.items()}
    for each, client in installed:
        if failed := [step for step, fate in found[each.name].items() if fate == "fails"]:
            found[each.name] |= fates_of(each, client, "-again", failed)
    return found


def is_steady(line: str) -> bool:
    """Return whether a line is a request that a client sends all the time."""
    return any(f'"requestApiKeyName":"{name}"' in line for name in STEADY)


def verdicts_of(folder: Path, bootstrap: str) -> dict[str, str]:
    """Return the worst verdict of each configuration, by the report of the command."""
    where = ("--cluster", "c", "--tables", str(folder / "tables"))
    fleet("run", "--once", *where, "--logs", str(folder / "logs"), "--bootstrap-server", bootstrap)
    asked = ("--to", "4.2", "--min-hours", "0", "--without-usage-reports", "--output", "json")
    found: dict[str, str] = {}
    for row in json.loads(fleet("readiness", *where, *asked))["rows"]:
        name = (row["client_id"] or "").partition("-before")[0]
        found[name] = max(found.get(name, "ok"), row["verdict"], key=WORST.index)
    return found


def fleet(*arguments: str) -> str:
    """Run a command of the fleet; return what it prints."""
    command = [sys.executable, "-m", "featuregate", "fleet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1, 3}, done.stderr
    return done.stdout


@pytest.mark.parametrize("wanted", CONFIGURATIONS, ids=lambda each: each.name)
def test_the_verdict_is_the_fate(wanted: Configuration, fates: dict[str, Fate]) -> None:
    """A client that cannot work is blocked; one that cannot log in is a warning: no log names its mechanism."""
    if wanted.name not in fates:
        pytest.skip("this release cannot be installed here")
    fate = fates[wanted.name]
    assert {fate.before[step] for step in fate.before if step != "admin"} == {"works"}, fate
    broken = {step for step, before in fate.before.items() if before == "works" and fate.after[step] != "works"}
    if broken & {SCRAM}:
        assert fate.verdict in {"warn", "block"}, fate
    else:
        assert (fate.verdict == "block") == bool(broken), fate
    assert fate.verdict in {"ok", "warn", "block"}, fate


def test_there_are_28_known_ones_and_20_more(fates: dict[str, Fate]) -> None:
    """Names are unique, and hardly any cannot be had."""
    assert len(KNOWN) == 28
    assert len(MORE) >= 20
    assert len({each.name for each in CONFIGURATIONS}) == len(CONFIGURATIONS)
    assert len(fates) >= 40
    assert sum(fate.verdict == "block" for fate in fates.values()) >= 12
