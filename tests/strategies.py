"""Hypothesis strategies for what brokers may say, lies included, shared by the tests of the pure rooms."""

from collections.abc import Callable

from hypothesis import strategies as st

from featuregate.catalog import API_NAMES, captured_releases
from featuregate.errors import RequirementError
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState
from featuregate.requirements import (
    And,
    ApiAtLeast,
    ApiBetween,
    ConfigHas,
    FeatureAtLeast,
    Or,
    Release,
    Requirement,
    presets,
)
from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, Failure, SupportedRange
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge

FEATURES = ("group.version", "metadata.version", "kraft.version", "brand.new.version")
KEYS = (0, 1, 28, 999)
CONFIGS = ("group.coordinator.rebalance.protocols", "brand.new.config")

numbers = st.integers(-3, 20)
api_ranges = st.dictionaries(st.sampled_from(KEYS), st.builds(ApiRange, numbers, numbers), max_size=4)
supported = st.dictionaries(st.sampled_from(FEATURES), st.builds(SupportedRange, numbers, numbers), max_size=3)
finalized = st.dictionaries(st.sampled_from(FEATURES), numbers, max_size=3)
configs = st.dictionaries(
    st.sampled_from(CONFIGS),
    st.builds(BrokerConfig, st.sampled_from([None, "", "classic", "classic, consumer"]), st.text(max_size=5))
    | st.builds(BrokerConfig, st.none(), st.text(max_size=5), st.just(value=False)),
    max_size=2,
)
times = st.floats(0, 2e9, allow_nan=False)
failures = st.builds(Failure, st.sampled_from(["TimedOut", "Unlisted"]), st.text(max_size=5))
cluster_ids = st.sampled_from([None, "c", "other"])


@st.composite
def broker_answers(draw: st.DrawFn) -> BrokerAnswer:
    node_id = draw(st.none() | st.integers(0, 4))
    place = {"node_id": node_id, "host": draw(st.sampled_from(["a", "b", "::1"])), "port": 9092}
    at = draw(times)
    if draw(st.booleans()):
        return BrokerAnswer(**place, answered_at=at, failure=draw(failures))
    return BrokerAnswer(
        **place,
        answered_at=at,
        api_ranges=draw(api_ranges),
        supported=draw(supported),
        finalized=draw(finalized),
        configs=draw(configs),
        epoch=draw(st.integers(-1, 5)),
        asked_version=draw(st.integers(0, 5)),
    )


@st.composite
def views(draw: st.DrawFn) -> View:
    return merge(
        draw(st.lists(broker_answers(), max_size=5)),
        cluster_id=draw(cluster_ids),
        controller_id=draw(st.none() | st.integers(0, 4)),
        broker_list=draw(st.sampled_from(["cluster", "bootstrap"])),
        seen_at=draw(times),
    )


def made(make: Callable[..., Requirement], *parts: object) -> Requirement | None:
    """Make a requirement, or None where it is refused."""
    try:
        return make(*parts)
    except RequirementError:
        return None


feature_names = st.sampled_from(FEATURES) | st.text("ab.Z-_1!=<>:&|() \t", max_size=6) | st.text(max_size=12)
keys = st.sampled_from(sorted(API_NAMES)) | st.integers(0, 32767)
versions = st.integers(-1, 32768)
conditions = (
    st.builds(made, st.just(FeatureAtLeast), feature_names, versions)
    | st.builds(made, st.just(ApiAtLeast), keys, versions)
    | st.builds(made, st.just(ApiBetween), keys, versions, versions)
    | st.builds(made, st.just(ConfigHas), feature_names, feature_names)
    | st.builds(Release, st.sampled_from(captured_releases()))
).filter(lambda condition: condition is not None)
requirements = st.recursive(
    conditions,
    lambda inner: st.builds(made, st.sampled_from([And, Or]), st.lists(inner, max_size=3)).filter(
        lambda combination: combination is not None
    ),
    max_leaves=8,
)
"""All requirements that can be made: each kind with any name and number, without those that are refused."""
named = st.sampled_from(presets.all())
small_conditions = (
    st.builds(FeatureAtLeast, st.sampled_from(FEATURES), st.integers(1, 6))
    | st.builds(ApiAtLeast, st.sampled_from(KEYS), st.integers(0, 6))
    | st.builds(
        lambda key, ends: ApiBetween(key, *sorted(ends)),
        st.sampled_from(KEYS),
        st.tuples(st.integers(0, 6), st.integers(0, 6)),
    )
    | st.builds(ConfigHas, st.sampled_from(CONFIGS), st.sampled_from(["classic", "consumer"]))
)
"""Conditions that views as drawn here may meet or not."""


def latch_states(
    names: st.SearchStrategy[str], requirements: st.SearchStrategy[str], times: st.SearchStrategy[float]
) -> st.SearchStrategy[LatchState]:
    """Draw what an app has latched in cluster ``c``."""
    gates = st.builds(LatchedGate, gate=names, requirement=requirements, opened_at=times, epoch=st.integers(-1, 9))
    burn_ins = st.builds(
        BurnIn,
        gate=names,
        requirement=requirements,
        attempt=st.integers(1, 3),
        seconds=times,
        since=st.none() | times,
    )
    return st.builds(
        lambda levels, opened, counted: LatchState(
            cluster_id="c",
            levels=levels,
            gates={gate.key: gate for gate in opened},
            burn_ins={each.key: each for each in counted},
        ),
        st.dictionaries(names, st.integers(1, 9), max_size=3),
        st.lists(gates, max_size=4),
        st.lists(burn_ins, max_size=3),
    )
