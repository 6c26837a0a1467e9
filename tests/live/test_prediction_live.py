"""A plan and the controller of a fake cluster give the answers of real controllers to random updates.

Both apply :mod:`featuregate.admin.kraft_rules`; here real controllers decide. The updates follow from a seed,
which stands in the header of the run (``--hypothesis-seed``) and in the name of a failure.
"""

import functools
import random
from collections.abc import Callable, Mapping

import pytest
from asking import ask
from held_plans import answers_of, held_to, request_of
from waiting import eventually

import featuregate as fg
from featuregate.admin.plans import plan
from featuregate.admin.updates import Update
from featuregate.catalog import features
from featuregate.testing import FakeCluster, LocalKafka
from featuregate.view.cluster_view import View

pytestmark = [pytest.mark.proof("admin"), pytest.mark.live, pytest.mark.slow]

BOUND = 20.0
"""Seconds for the levels to arrive at a node, which takes milliseconds."""
ROUNDS = 60
NAMES = (*features(), *features(), "bogus")
KINDS = ("upgrade", "safe_downgrade", "unsafe_downgrade")
CONTROLLERS_ARE_LISTED_FROM = 15
"""``metadata.version`` 3.7-IV0 (KIP-919)."""


def made_up(rng: random.Random, levels: Mapping[str, int]) -> tuple[Update, ...]:
    """Return random updates of one to three features, mostly by one level."""
    return tuple(one_of(rng, name, levels.get(name, 0)) for name in rng.sample(sorted(set(NAMES)), rng.randint(1, 3)))


def one_of(rng: random.Random, name: str, current: int) -> Update:
    level = rng.randint(0, 35) if rng.random() < 0.1 else max(0, current + rng.randint(-2, 2))
    fitting = "safe_downgrade" if level < current or not level else "upgrade"
    kind = fitting if rng.random() < 0.8 else rng.choice(KINDS)
    return Update(name, max(level, int(kind == "upgrade")), kind)  # type: ignore[arg-type]  # one of three


def poll(kafka: LocalKafka, cluster: FakeCluster) -> tuple[View, View | None]:
    """Probe brokers, and controllers if clients may, until they report the levels of the fake cluster."""
    lists = cluster.finalized["metadata.version"] >= CONTROLLERS_ARE_LISTED_FROM
    brokers = shown(lambda: fg.discover(kafka.client_config()), cluster.finalized)
    if not lists:
        return brokers, None
    there = {"bootstrap.controllers": kafka.controller_bootstrap}
    return brokers, shown(lambda: fg.discover(there), cluster.finalized)


def shown(discover: Callable[[], View], levels: Mapping[str, int]) -> View:
    """Poll until the levels are there; a node that has just started may not know of any other."""
    seen = functools.partial(eventually, discover, f"{dict(levels)}", despite=(fg.DiscoveryError,))
    return seen(met=lambda view: dict(view.finalized) == dict(levels))


@pytest.mark.parametrize("version", ["3.3.2", "3.9.2", "4.0.0", "4.1.1", "4.2.0", "4.3.1"])
def test_a_plan_and_a_fake_controller_say_what_a_real_one_says(version: str, request: pytest.FixtureRequest) -> None:
    """Decisions, error codes, messages and the resulting levels are equal, request by request."""
    rng = random.Random(f"{version} {request.config.option.hypothesis_seed}")
    with LocalKafka(version, nodes=1) as kafka:
        cluster = FakeCluster(1, release=version.rpartition(".")[0])
        for at in range(ROUNDS):
            brokers, controllers = poll(kafka, cluster)
            updates, dry_run = made_up(rng, cluster.finalized), rng.random() < 0.3
            where = f"{version}, request {at}: {updates}, dry run {dry_run}, from {dict(cluster.finalized)}"
            made = plan(brokers, updates, controllers=controllers)
            spoken = brokers.api_ranges[57].max
            real = ask(kafka.bootstrap, request_of(updates, dry_run=dry_run), spoken, seconds=BOUND)
            assert cluster.update(updates, dry_run=dry_run, version=spoken) == real, where
            try:
                held_to(made, answers_of(real, updates), whole=controllers is not None)
            except AssertionError as error:
                raise AssertionError(f"{where}\n{made}\n{real}") from error
