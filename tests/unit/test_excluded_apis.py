"""Versions of APIs that a configuration excludes for a client (KIP-35, item 6)."""

import ast
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, requirements, views
from transcripts import retold, sections

import featuregate as fg
from featuregate.config import Settings
from featuregate.errors import ConfigError
from featuregate.excluded_apis import ExcludedApis, excluded_apis
from featuregate.gating.decisions import evaluate
from featuregate.gating.latch_store import FileLatchStore
from featuregate.requirements import Api, ApiAtLeast, ApiBetween, Release, parse
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate.view.answers import ApiRange, BrokerAnswer
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge

PRODUCE = 0


def seen(*produce: tuple[int, int]) -> View:
    answers = [
        BrokerAnswer(node_id=at, host=f"b{at}", port=9092, api_ranges={PRODUCE: ApiRange(*versions)}, asked_version=4)
        for at, versions in enumerate(produce, 1)
    ]
    return merge(answers, cluster_id="c", seen_at=1.0)


def ranges_of(text: str) -> object:
    try:
        return excluded_apis(ast.literal_eval(text)).ranges
    except ConfigError as error:
        return error


def decision_of(text: str) -> str:
    served, requirement, exclude = text.split(" / ")
    view = seen(*((int(low), int(high)) for low, high in (each.split("-") for each in served.split(", "))))
    decision = evaluate(view, parse(requirement), exclude_apis=exclude.removeprefix("nothing"))
    return ": ".join([decision.verdict, *(each.text for each in decision.sorted_reasons[:1])])


TELL = {"texts": ranges_of, "decisions": decision_of}


@pytest.mark.parametrize("scene", TELL)
def test_what_is_read_and_decided_is_as_kept(scene: str) -> None:
    """The whole answers: ranges or an error, and the verdict with its first reason."""
    kept = sections(__file__, "excluded_apis.txt")[scene]
    assert retold(kept, TELL[scene]) == kept


# ---------------------------------------------------------------- the text


@given(st.text(alphabet="Fetch=0129-, produce api:", max_size=20) | st.text(max_size=10))
def test_any_text_reads_or_is_a_config_error(text: str) -> None:
    """The parser reads the text of its result as the same result."""
    try:
        excluded = excluded_apis(text)
    except ConfigError:
        return
    assert excluded_apis(str(excluded)) == excluded


@pytest.mark.parametrize("text", ["a ", "a =", "1-", "9- "])
def test_a_long_text_is_read_in_one_pass(text: str) -> None:
    """The expression took the square of it: minutes for a file of properties."""
    with pytest.raises(ConfigError):
        excluded_apis("Fetch" + text * 100_000)


def test_the_property_and_the_keyword_are_the_same() -> None:
    """The keyword overrides the property, and an error names the one that the app used."""
    config = {"bootstrap.servers": "a", "featuregate.exclude.apis": "Fetch"}
    assert Settings.parse(config).exclude_apis == excluded_apis("Fetch")
    assert Settings.parse(config, exclude_apis="Produce").exclude_apis == excluded_apis("Produce")
    assert Settings.parse(config, exclude_apis="").exclude_apis == excluded_apis("")
    spark = {"kafka.bootstrap.servers": "a", "kafka.featuregate.exclude.apis": "Fetch=x"}
    with pytest.raises(ConfigError, match=r"^kafka\.featuregate\.exclude\.apis: part 1 of 1"):
        Settings.parse(spark)
    settings = Settings.parse(config)
    assert pickle.loads(pickle.dumps(settings)) == settings


# ---------------------------------------------------------------- decisions


def test_the_view_says_what_brokers_say() -> None:
    """An exclusion changes neither the view nor a release, which rests on what the brokers advertise."""
    view = release_view("3.9")
    features = StaticFeatures(view, exclude_apis="Produce,Fetch=5-")
    assert features.view.api("Produce") == view.api("Produce") != None  # noqa: E711 - all three are the same
    assert evaluate(view, Release("3.9"), exclude_apis="Produce,Fetch").open


@given(
    views(), requirements, st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 9)), max_size=3)
)
def test_an_exclusion_opens_nothing(view: View, requirement: fg.Requirement, excluded: list) -> None:
    """A requirement that is open with an exclusion is also open without it."""
    ranges = ExcludedApis(tuple(sorted((key, min(ends), max(ends)) for key, *ends in excluded)))
    if evaluate(view, requirement, exclude_apis=ranges).open:
        assert evaluate(view, requirement).open


@given(views(), st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 9), st.sets(st.integers(0, 20), max_size=12))
def test_a_range_is_open_exactly_where_a_version_is_left(
    view: View, key: int, lowest: int, length: int, excluded: set[int]
) -> None:
    """The test counts the versions that are left one by one."""
    text = ",".join(f"api:{key}={version}" for version in excluded)
    between = evaluate(view, ApiBetween(key, lowest, lowest + length), exclude_apis=text).verdict
    at_least = evaluate(view, ApiAtLeast(key, lowest), exclude_apis=text).verdict
    served = [
        {version for version in range(lowest, 33) if (r := broker.serves(key)) and r.min <= version <= r.max} - excluded
        for broker in view.answering
    ]
    of_all = set.intersection(*served) & set(range(lowest + length + 1)) if served else set()
    assert (between == "open") is (not view.incomplete and bool(of_all))
    assert (at_least == "open") is (not view.incomplete and all(served))


# ---------------------------------------------------------------- gates


def test_the_gates_of_a_discoverer_leave_them_out() -> None:
    """The source takes a keyword or a property, and its view keeps what the brokers advertise."""
    with FakeCluster(brokers=2, release="3.9") as cluster:
        for given in (
            {"source": fg.BrokerSource(cluster.bootstrap, exclude_apis="TxnOffsetCommit=3-")},
            {"config": {"bootstrap.servers": cluster.bootstrap, "featuregate.exclude.apis": "TxnOffsetCommit=3-"}},
        ):
            with fg.Discoverer(**given) as features:
                kip447 = features.gate("kip447", fg.presets.kip447)
                features.refresh()
                assert not kip447.open
                assert "versions 3 to 4 are excluded by configuration" in kip447.decision.summary
                assert features.view.api("TxnOffsetCommit").max == 4
        with pytest.raises(ConfigError, match=r"^exclude_apis: part 1 of 1"):
            fg.Discoverer(source=fg.BrokerSource(cluster.bootstrap, exclude_apis="TxnOfsetCommit"))


def test_invariant_2_a_latch_is_held_against_an_exclusion_that_came_later(tmp_path: Path) -> None:
    """The decision says so, because a configuration must not silently close a gate that has opened."""
    with FakeCluster(brokers=1, release="3.9") as cluster:
        with fg.Discoverer(cluster.bootstrap, latch_store=FileLatchStore(tmp_path)) as features:
            assert features.gate("offsets", Api("TxnOffsetCommit") >= 3).wait(30)
        later = fg.Discoverer(
            source=fg.BrokerSource(cluster.bootstrap, exclude_apis="Fetch=1,TxnOffsetCommit"),
            latch_store=FileLatchStore(tmp_path),
        )
        with later as features:
            held, new = features.gate("offsets", "TxnOffsetCommit>=3"), features.gate("new", "TxnOffsetCommit>=3")
            features.refresh()
            assert (held.open, new.open) == (True, False)
            told = "held open: latched at epoch"
            assert held.decision.held.startswith(told)
            assert held.decision.held.endswith("are excluded by configuration (TxnOffsetCommit)")
