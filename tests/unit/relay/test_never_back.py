"""No answer of any relay takes a client back: over random schedules of replicas, clients and their cluster."""

from typing import ClassVar, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, find, given, settings
from relay_world import CLIENTS, REPLICAS, World
from schedules import ANY_EXAMPLE

from featuregate.sources.seen import Floor
from featuregate.sources.source import BrokerAnswers
from featuregate.view.answers import ApiRange, BrokerAnswer

PRODUCE = 0
EXAMPLES = 60


class State(NamedTuple):
    """What every broker of the cluster reports: the level goes up and down, and the software only up."""

    epoch: int
    level: int
    produce: int


class PlainWorld(World):
    """Brokers that all say the same, of now or of some epochs ago."""

    wanted: ClassVar = [("latched", "group.version>=2", "sticky"), ("served", "Produce>=2", "live")]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.history = [State(epoch=1, level=1, produce=1)]

    def upgrade(self) -> None:
        state = self.history[-1]
        self.history.append(State(state.epoch + 1, state.level + 1, min(state.produce + 1, 3)))

    def downgrade(self) -> None:
        state = self.history[-1]
        self.history.append(state._replace(epoch=state.epoch + 1, level=max(state.level - 1, 0)))

    def answers(self, replica: int, how: int) -> BrokerAnswers:
        """Levels are those of some epochs ago. The software is that of now."""
        state = self.history[max(0, len(self.history) - 1 - how)]
        answer = BrokerAnswer(
            node_id=1,
            host="b",
            port=9092,
            epoch=state.epoch,
            finalized={"group.version": state.level},
            api_ranges={PRODUCE: ApiRange(0, self.history[-1].produce)},
            answered_at=self.now,
        )
        return BrokerAnswers(
            cluster_id="one",
            controller_id=None,
            broker_list="cluster",
            registered=True,
            role="broker",
            answers=(answer,),
            answered_at=self.clock_of(replica)(),
        )


def steps() -> st.SearchStrategy[tuple]:
    replicas, clients = st.integers(0, REPLICAS - 1), st.integers(0, CLIENTS - 1)
    polls = st.tuples(st.just("poll"), replicas, st.integers(0, 2))
    asks = st.tuples(st.just("ask"), clients, replicas, st.lists(st.floats(0, 3), max_size=4))
    return st.one_of(
        polls,
        asks,
        polls,
        asks,
        st.tuples(st.just("pass_time"), st.floats(0, 100)),
        st.tuples(st.sampled_from(["upgrade", "downgrade"])),
        st.tuples(st.just("restart"), replicas),
    )


SCHEDULES = st.lists(steps(), min_size=10, max_size=60)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(SCHEDULES)
def test_no_answer_takes_a_client_back(schedule: list[tuple]) -> None:
    """Replicas may be far behind, restarted or delayed, and have other clocks."""
    world = PlainWorld().run(schedule)
    assert world.falls == []
    assert world.closed == []


@pytest.mark.no_cover
def test_without_the_floor_answers_do_take_clients_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above would notice."""
    monkeypatch.setattr(Floor, "above", lambda *_: None)
    find(SCHEDULES, lambda schedule: PlainWorld().run(schedule).falls, settings=ANY_EXAMPLE)


def test_clients_get_answers_from_replicas_that_are_not_behind() -> None:
    """A floor that refused everything would have the property, too."""
    world = PlainWorld().run(
        [
            ("poll", 0, 0),
            ("ask", 1, 0, [0.5, 0.5]),
            ("upgrade",),
            ("poll", 1, 0),
            ("restart", 0),
            ("ask", 1, 0, []),
            ("pass_time", 5.0),
            ("poll", 2, 0),
            ("restart", 1),
            ("ask", 1, 0, []),
        ]
    )
    assert world.answered == 3
    assert world.clients[1].view.epoch == 2
