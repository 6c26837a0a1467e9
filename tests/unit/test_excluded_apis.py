"""Versions of APIs that a configuration excludes for a client (KIP-35, item 6)."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, requirements, views

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


def verdict(view: View, requirement: str, exclude: str) -> str:
    return evaluate(view, parse(requirement), exclude_apis=exclude).verdict


# ---------------------------------------------------------------- the text


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("", ()),
        (" , ", ()),
        ("Produce=9-11,Fetch", ((0, 9, 11), (1, 0, 32767))),
        ("FETCH = 4 - 5 , produce=9", ((0, 9, 9), (1, 4, 5))),
        ("Produce=9-", ((0, 9, 32767),)),
        ("Produce=3-5,Produce=1,Produce=4-7,Produce=8", ((0, 1, 1), (0, 3, 8))),
        ("Produce=1-9,Produce=2-3", ((0, 1, 9),)),
        ("Produce=4,Produce", ((0, 0, 32767),)),
        ("api:999=0", ((999, 0, 0),)),
    ],
)
def test_a_text_reads(text: str, ranges: tuple) -> None:
    """The parser reads a range, one version, an open range or a whole API, and joins ranges that touch."""
    assert excluded_apis(text).ranges == ranges
    assert excluded_apis(str(excluded_apis(text))) == excluded_apis(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Prodce=9", "part 1 of 1 names no known API: did you mean Produce?"),
        ("Fetch,xyzzy", "part 2 of 2 names no known API"),
        ("Produce=11-9", "part 1 of 1 has numbers that are not an API and a range of versions from 0 to 32767"),
        ("Produce=99999", "part 1 of 1 has numbers that are not an API"),
        ("api:99999", "part 1 of 1 has numbers that are not an API"),
        ("Produce=", "part 1 of 1 is none of: API, API=9, API=9-11, API=9-"),
        ("Produce>=9", "part 1 of 1 names no known API: did you mean Produce?"),
        ("=9", "part 1 of 1 is none of"),
        ("Produce=-9", "part 1 of 1 is none of"),
        (9, "must be a text such as Produce=9-11,Fetch, not a int"),
    ],
)
def test_an_invalid_text_is_an_error(text: str, problem: str) -> None:
    """The error names the option and the part, and does not repeat the value."""
    with pytest.raises(ConfigError) as caught:
        excluded_apis(text)
    assert (caught.value.key, caught.value.problem[: len(problem)]) == ("exclude_apis", problem)


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


@pytest.mark.parametrize(
    ("served", "requirement", "exclude", "expected"),
    [
        ([(0, 11)], "Produce>=9", "", "open"),
        ([(0, 11)], "Produce>=9", "Produce=9-11", "closed"),
        ([(0, 11)], "Produce>=9", "Produce=9-10", "open"),
        ([(0, 12)], "Produce>=9", "Produce=9-11", "open"),
        ([(0, 11)], "Produce>=9", "Produce=9-", "closed"),
        ([(0, 11)], "Produce>=9", "Produce", "closed"),
        ([(0, 11)], "Produce>=9", "Fetch", "open"),
        ([(0, 11), (0, 9)], "Produce>=9", "Produce=9", "closed"),
        ([(0, 11)], "Produce in 7..9", "Produce=8-9", "open"),
        ([(0, 11)], "Produce in 7..9", "Produce=7-9", "closed"),
        ([(0, 8), (8, 11)], "Produce in 7..9", "Produce=8", "closed"),
        ([(0, 8), (7, 11)], "Produce in 7..9", "Produce=8", "open"),
    ],
)
def test_an_excluded_version_does_not_count_as_served(
    served: list[tuple[int, int]], requirement: str, exclude: str, expected: str
) -> None:
    """A single version must be left for each broker, and a range needs one that is left for all brokers."""
    assert verdict(seen(*served), requirement, exclude) == expected


@pytest.mark.parametrize(
    ("served", "requirement", "exclude", "text"),
    [
        ([(0, 9)], "Produce>=9", "Produce=9", "serves Produce 0..9, but version 9 is excluded by configuration"),
        ([(0, 11)], "Produce>=9", "Produce=8-", "but versions 9 to 11 are excluded by configuration"),
        ([(0, 11)], "Produce>=9", "Produce=9,Produce=10-11", "but versions 9 to 11 are excluded by configuration"),
        ([(0, 11)], "Produce in 9..11", "Produce=9,Produce=10-", "but versions 9 to 11 are excluded by configuration"),
        ([(0, 8), (7, 8)], "Produce in 7..9", "Produce=7-8", "but versions 7 to 8 are excluded by configuration"),
        (
            [(0, 8), (8, 9)],
            "Produce in 7..9",
            "Produce=8",
            "served by all of them: version 8 is excluded by configuration",
        ),
        ([(0, 3)], "Produce>=9", "Produce=9", "serves Produce 0..3"),
    ],
)
def test_the_reason_says_what_is_excluded(served: list, requirement: str, exclude: str, text: str) -> None:
    """The reason names the excluded versions, unless the broker is too old anyway."""
    decision = evaluate(seen(*served), parse(requirement), exclude_apis=exclude)
    assert decision.verdict == "closed"
    assert decision.sorted_reasons[0].text.endswith(text)


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
