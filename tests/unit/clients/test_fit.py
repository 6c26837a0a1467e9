"""What was measured of a client decides, and nothing else does."""

import ast
import itertools
from dataclasses import replace

import pytest
from transcripts import retold, sections

import featuregate as fg
from featuregate import values
from featuregate.catalog import clients as table
from featuregate.catalog.clients import ClientRow, OnBroker, Step, neighbours
from featuregate.clients import Client, Finding, Fit, fit_of
from featuregate.clients.declared import client
from featuregate.clients.fit import OPTIONAL, SASL, lowest_pin, step_of, tried_around, upgrade_for
from featuregate.errors import ConfigError
from featuregate.testing import FakeCluster, release_view
from featuregate.view.answers import SupportedRange

READ = sections(__file__, "fits.txt")
NEWEST = release_view("4.4")
BEYOND = {**NEWEST.brokers[0].supported, "metadata.version": SupportedRange(7, 99)}
NEWER = values.replace(NEWEST, brokers=(values.replace(NEWEST.brokers[0], supported=BEYOND),))


def confluent(version: str, release: str = "4.2", sasl: str | None = None) -> Fit:
    return fit_of(client("confluent-kafka", version), release, sasl=sasl)


def steps(fit: Fit) -> set[str]:
    return {finding.step for finding in fit.findings}


def asked(text: str) -> Fit:
    name, version, _, release, *sasl = text.split(" ")
    return fit_of(client(name, version), release, sasl=sasl[0] if sasl else None)


def fate_of(text: str) -> str:
    fit = asked(text)
    told = (f"{each.step} {each.fate}{f' until {each.works_from}' * bool(each.works_from)}" for each in fit.findings)
    return "; ".join([fit.verdict, *told])


def pin_of(text: str) -> str:
    *pins, release = ast.literal_eval(text)
    return repr(lowest_pin([replace(row("1.0", "works"), pins=each) for each in pins], release))


TELL = {"fates": fate_of, "texts": asked, "pins": pin_of}


@pytest.mark.parametrize("scene", READ)
def test_all_fits_are_as_kept(scene: str) -> None:
    """The fates were seen on real brokers, or stand between releases of which they were seen."""
    assert retold(READ[scene], TELL[scene]) == READ[scene]


def test_a_finding_names_the_api_and_the_release_that_has_it():
    """The first offset of a group needs ListOffsets, of which this librdkafka has version 0 alone."""
    (found,) = (each for each in confluent("1.5.0").findings if each.step == "consume")
    assert (found.api, found.versions[-1], found.fate) == (2, 0, "fails")
    assert str(found).startswith("consume without a committed offset: it sends ListOffsets 0, and Kafka 4.2 serves")
    assert found.works_from is not None
    assert confluent(found.works_from.removeprefix("confluent-kafka ")).verdict != "breaks"


@pytest.mark.parametrize("name", sorted(table.measured_clients()))
def test_what_worked_and_fails_since_is_a_finding_on_each_release_that_does_not_work(name: str):
    """Be it measured there or not. Between two releases on which it works, it works."""
    releases = ["2.4", "2.8", "3.0", "3.3", "3.7", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
    for each in table.client_rows(name):
        for release, step in itertools.product(releases, (*OPTIONAL, *SASL)):
            fates = [found.steps[step].fate for found in each.brokers.values() if step in found.steps]
            older = [
                found.steps[step].fate
                for kafka, found in each.brokers.items()
                if step in found.steps and table.version_numbers(kafka) < table.version_numbers(release)
            ]
            if "fails" in fates and "works" in older and step_of([each], step, release).fate != "works":
                assert step in steps(fit_of(Client(name=name, version=each.version), release)), (each.version, release)


def test_a_step_has_neighbours_of_its_own():
    """Some mechanisms were tried with some releases and brokers alone, and those around them stand for the others."""
    assert str(confluent("2.5.3", sasl="OAUTHBEARER")).endswith(
        "works on 4.2 (as measured of confluent-kafka 2.3.0 and "
        "confluent-kafka 2.5.3 and confluent-kafka 2.6.0, around it)"
    )
    rows = [row("1.0", "works"), row("1.1", "works"), row("1.2", "works")]
    tried = [replace(each, brokers={"4.2.0": OnBroker({}, {"tls": Step("fails", "why")})}) for each in rows[::2]]
    assert tried_around([tried[0], rows[1], tried[1]], [rows[1]], "tls") == tuple(tried)
    assert tried_around(rows, [rows[1]], "tls") == ()
    assert tried_around([*tried[:1], *rows[1:]], [rows[1]], "tls") == ()  # nothing stands for what is beyond the last
    on = {
        "3.9.2": OnBroker({}, {"tls": Step("works")}),
        "4.0.0": OnBroker({}, {}),
        "4.2.0": OnBroker({}, {"tls": Step("works")}),
    }
    assert step_of([replace(rows[0], brokers=on)], "tls", "4.0").fate == "works"
    assert step_of([replace(rows[0], brokers=on)], "tls", "4.3").fate == "unknown"


def row(version: str, fate: str, release: str = "4.2.0") -> ClientRow:
    on = {release: OnBroker({}, {"produce": Step(fate)})}
    return ClientRow(client="c", version=version, seen="", how="", bundles={}, software=(), brokers=on)


def test_neighbours_that_agree_stand_for_the_releases_between_them():
    """Those that differ say nothing, and nothing stands for a release beyond the last one."""
    both = neighbours([row("1.0", "works"), row("1.4", "works"), row("2.0", "fails")], "1.2", lambda one: one.version)
    assert [each.version for each in both] == ["1.0", "1.4"]
    assert step_of(both, "produce", "4.2").fate == "works"
    assert step_of([row("1.4", "works"), row("2.0", "fails")], "produce", "4.2").fate == "unknown"
    assert step_of([row("1.0", "works", "4.0.0")], "produce", "4.1").fate == "unknown"
    assert neighbours([row("1.0", "works")], "1.1", lambda one: one.version) == ()


def test_a_view_stands_for_the_releases_of_its_brokers():
    """The worst counts where brokers differ."""
    with FakeCluster(2, release="3.9") as cluster:
        view = fg.discover(cluster.bootstrap)
        assert fg.clients.fit(view, [client("confluent-kafka", "1.5.0")])[0].verdict == "depends"
    with FakeCluster(1, release="4.2") as cluster:
        (found,) = fg.clients.fit(fg.discover(cluster.bootstrap), [client("confluent-kafka", "1.5.0")])
        assert (found.verdict, found.release) == ("breaks", "4.2")


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (release_view("3.9", "4.2", silent={2}), "broker 2 (broker-2:9092) did not answer, and may run any release"),
        (NEWER, "broker 1 (broker-1:9092) may run a newer release than featuregate knows, by metadata.version"),
    ],
    ids=["silent", "newer"],
)
def test_invariant_13_a_client_is_unknown_where_a_broker_may_run_another_release(view: fg.View, why: str) -> None:
    """But for one that breaks on the brokers that are known."""
    (found,) = fg.clients.fit(view, [client("confluent-kafka", "2.6.1")])
    assert (found.verdict, found.findings[0].why) == ("unknown", why)
    known = release_view("4.2", "4.2", silent={1})
    assert fg.clients.fit(known, [client("confluent-kafka", "1.5.0")])[0].verdict == "breaks"


@pytest.mark.parametrize("release", ["9.9", "newest", "", release_view("4.2", silent={1})])
def test_a_release_that_nobody_knows_is_an_error(release: str | fg.View):
    """The error names those that are known."""
    with pytest.raises(ConfigError, match=r"is not a known release of Kafka: 0\.10\.0 to 4\.|no broker answered"):
        fg.clients.fit(release)


def test_the_clients_of_this_interpreter_are_found_without_importing_them():
    """A version is metadata of a package."""
    names = {found.name for found in fg.clients.installed()}
    assert {"confluent-kafka", "kafka-python", "aiokafka", "pyspark"} <= names


def test_an_upgrade_is_to_the_newest_release_that_a_finding_needs():
    """The numbers count, not the letters, and not the order of the findings."""
    needed = [Finding(step="a", fate="fails", why="", works_from=f"c {version}") for version in ("1.10.0", "1.9.2")]
    assert upgrade_for(needed) == "c 1.10.0"
    assert upgrade_for([]) is None


@pytest.mark.parametrize("version", ["4.0", "4.0.0", "v4", "4.0.0.0"])
def test_a_version_with_fewer_zeros_is_the_same(version: str):
    """As PyPI compares them; the client has the version of the table."""
    assert str(client("pyspark", version)) == "pyspark 4.0.0 (kafka-clients 3.9.0)"


@pytest.mark.parametrize("version", ["9" * 10_000, "99." * 10_000, "0." * 10_000 + "0"])
def test_a_version_of_any_length_is_no_error(version: str):
    """A client says its version to brokers, and the fleet reads it in their logs."""
    assert fit_of(Client(name="confluent-kafka", version=version), "4.2").verdict == "unknown"


def test_clients_that_are_too_old_for_a_preset_are_named_with_the_release_that_is_not():
    """A gate on the preset opens all the same."""
    old, new, other = (client("confluent-kafka", each) for each in ("2.14.2", "2.16.1", "2.12.2"))
    unknown = client("kafka-python", "2.0.2")
    assert fg.clients.not_ready(fg.presets.kip932, [old, new, other, unknown]) == {old: "2.15.1", other: "2.15.1"}
    assert fg.clients.not_ready(fg.presets.kip848, [other, client("confluent-kafka", "2.11.1")]) != {}
    assert fg.clients.not_ready(fg.presets.kip447, [old]) == {}
    assert fg.clients.not_ready(fg.presets.kip932) == {}  # what is installed here
