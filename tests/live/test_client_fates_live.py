"""What readiness says of a client before an upgrade is what becomes of it: 50 configurations, 3.9.2 to 4.2.0.

The verdicts are from a log that has only steady calls: those of a client that starts, joins a group or looks up an
offset are left out of it. The fates are those on the upgraded broker, with new groups, members that share partitions,
offsets that are reset, topics that are created and grown, and logins.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import clients as measuring
import pytest
from client_brokers import RecordedBroker
from client_configurations import (
    AFTER,
    BEFORE,
    CONFIGURATIONS,
    KNOWN,
    MORE,
    SCRAM,
    Configuration,
    of_cache,
    verdicts_of,
)

if TYPE_CHECKING:
    from client_installers import Installed

pytestmark = [pytest.mark.proof("clients"), pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(3600)]

AT_A_TIME = 4


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
        verdicts = verdicts_of(folder, broker, "before")
        broker.kafka.roll(1, AFTER)
        after = run_all(installed, broker, "after")
    return {name: Fate(verdicts.get(name, "no row"), before[name], after[name]) for name in before}


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
    elif fate.verdict != "unknown":
        assert (fate.verdict == "block") == bool(broken), fate
    assert fate.verdict in wanted.verdicts, fate


def test_there_are_28_known_ones_and_20_more(fates: dict[str, Fate]) -> None:
    """Names are unique, and hardly any cannot be had."""
    assert len(KNOWN) == 28
    assert len(MORE) >= 20
    assert len({each.name for each in CONFIGURATIONS}) == len(CONFIGURATIONS)
    assert len(fates) >= 40
    assert sum(fate.verdict == "block" for fate in fates.values()) >= 12
