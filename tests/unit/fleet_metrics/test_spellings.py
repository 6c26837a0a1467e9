"""Each way in which exporters spell the metrics: the same content from all of them."""

import pytest
from metrics_pages import PAGES, read

from featuregate_fleet.metrics.pages import evidence_of, started_at
from featuregate_fleet.metrics.samples import samples_of
from featuregate_fleet.metrics.spellings import (
    Connected,
    Converted,
    Deprecated,
    Requests,
    Started,
    Unusable,
    meaning_of,
)

REAL = sorted(path.name for path in PAGES.glob("3.9.2-*.txt"))
SPELLED = sorted(
    path.name for path in PAGES.glob("spelled-*.txt") if "datadog" not in path.name and "without" not in path.name
)
OF_LIBRDKAFKA = Deprecated("Fetch", 3, "librdkafka", "1.9.2")


def test_each_published_set_of_rules_has_a_page() -> None:
    """Four real pages, and eight that were spelled after measured ones, or after their rules."""
    assert (len(REAL), len(SPELLED)) == (4, 8)


@pytest.mark.parametrize("name", REAL)
def test_all_requests_of_a_real_broker_are_read(name: str) -> None:
    """The 33 pairs of API and version, under the names of Kafka."""
    found = {one.meaning: one.value for one in samples_of((PAGES / name).read_bytes()).samples}
    pairs = {pair: count for pair, count in found.items() if isinstance(pair, Requests)}
    assert len(pairs) == 33
    assert pairs[Requests("Metadata", 0)] == 7
    assert pairs[Requests("Fetch", 3)] == (9 if "confluent" in name else 7)
    assert pairs[Requests("BrokerRegistration", 4)] == 1


@pytest.mark.parametrize("name", REAL)
def test_the_software_of_deprecated_requests_is_read_in_each_mangled_form(name: str) -> None:
    """Fetch 3 was sent by librdkafka, and Fetch 1 and Produce 1 by a client without a name."""
    found = {one.meaning for one in samples_of((PAGES / name).read_bytes()).samples}
    assert {one for one in found if isinstance(one, Deprecated) and one.api != "FetchConsumer"} == {
        OF_LIBRDKAFKA,
        Deprecated("Fetch", 1, "unknown", "unknown"),
        Deprecated("Produce", 1, "unknown", "unknown"),
    }


@pytest.mark.parametrize("name", SPELLED)
def test_other_rules_say_the_same(name: str) -> None:
    """Requests, software of deprecated ones, connections, and the start of the broker."""
    samples = samples_of((PAGES / name).read_bytes())
    found = {one.meaning: one.value for one in samples.samples}
    assert samples.unread == 0
    assert {pair: count for pair, count in found.items() if isinstance(pair, Requests)} == {
        Requests("Fetch", 3): 7,
        Requests("FetchConsumer", 3): 7,
    }
    assert [one for one in found if isinstance(one, Deprecated)] == [OF_LIBRDKAFKA]
    listener = "client" if "kraft" in name else "CLIENT"
    assert found[Connected("librdkafka", "1.9.2", listener, "0")] == 2
    starts = {one.source: value for one, value in found.items() if isinstance(one, Started)}
    assert str(started_at(starts)) == "2026-11-29 09:41:56.710000+00:00"


def test_confluent_and_strimzi_show_the_listener_of_each_software() -> None:
    """Six softwares of three listeners; the real pages without rules and of Bitnami have none."""
    for name in REAL:
        found = [one for one in samples_of((PAGES / name).read_bytes()).samples if isinstance(one.meaning, Connected)]
        assert len(found) == (6 if "strimzi" in name or "confluent" in name else 0)


@pytest.mark.parametrize(
    ("name", "software", "version"),
    [
        ("apache_kafka_java_clientsoftwareversion_3_9_2", "apache-kafka-java", "3.9.2"),
        (
            "confluent_kafka_python_clientsoftwareversion_2_16_1_rdkafka_2_16_0",
            "confluent-kafka-python",
            "2.16.1-rdkafka-2.16.0",
        ),
        ("some_thing_clientsoftwareversion_1_0", "some_thing", "1.0"),
        ("unknown_clientsoftwareversion_unknown", "unknown", "unknown"),
    ],
)
def test_a_software_in_a_name_gets_its_dots_and_dashes_back(name: str, software: str, version: str) -> None:
    """By the names that measured clients report; one that was not measured stays as it is, and is unknown."""
    whole = (
        f"kafka_server_socket_server_metrics_clientsoftwarename_{name}_listener_client_networkprocessor_0_connections"
    )
    assert meaning_of(whole, {}) == Connected(software, version, "client", "0")


def test_the_metrics_reporter_of_strimzi_writes_underscores_for_dots() -> None:
    """No name of a software has an underscore (KIP-511), so each is a dot."""
    labels = {"clientSoftwareName": "my_soft-x", "clientSoftwareVersion": "2_16_1-rdkafka-2_16_0"}
    name = "kafka_network_requestmetrics_deprecatedrequestspersec_total"
    found = meaning_of(name, {**labels, "request": "Produce", "version": "1"})
    assert found == Deprecated("Produce", 1, "my.soft-x", "2.16.1-rdkafka-2.16.0")


def test_what_rules_dropped_is_said() -> None:
    """Requests without their version, a version that is no number, and a software without its listener."""
    requests = "kafka_network_requestmetrics_requestspersec"
    assert meaning_of(requests, {"request": "Fetch"}) == Unusable("version")
    assert meaning_of(requests, {"request": "Fetch", "version": "x"}) == Unusable("a version that is a number")
    assert meaning_of(requests, {"version": "3"}) == Unusable("request")
    software = "kafka_server_socket_server_metrics_connections"
    assert meaning_of(software, {"clientSoftwareName": "a", "listener": "B"}) == Unusable("clientSoftwareVersion")
    assert meaning_of(software, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}) == Unusable("listener")
    assert meaning_of(software, {"clientSoftwareVersion": "1", "listener": "B"}) == Unusable("clientSoftwareName")
    assert meaning_of(software, {"listener": "B"}) is None


def test_topics_with_converted_messages_are_read() -> None:
    """By a name of their own, and without rules by a label."""
    topics = "kafka_server_brokertopicmetrics_"
    assert meaning_of(f"{topics}fetchmessageconversions_total", {"topic": "t"}) == Converted("fetch", "t")
    labels = {"name": "ProduceMessageConversionsPerSec", "topic": "t"}
    assert meaning_of("kafka_server_BrokerTopicMetrics_Count", labels) == Converted("produce", "t")
    assert meaning_of(f"{topics}fetchmessageconversions_total", {}) is None
    assert meaning_of("kafka_server_BrokerTopicMetrics_Count", {"name": "BytesInPerSec", "topic": "t"}) is None


def test_other_metrics_mean_nothing() -> None:
    """Rates, other histograms, and the names of a collector that asks for beans that do not exist."""
    for name in ("kafka_network_requestmetrics_requestspersec_oneminuterate", "up", "kafka_request_count"):
        assert meaning_of(name, {"request": "Fetch", "version": "3"}) is None
    assert meaning_of("kafka_network_RequestMetrics_Count", {"name": "TotalTimeMs", "request": "Fetch"}) is None
    assert not evidence_of([read((PAGES / "spelled-datadog.txt").read_bytes())], *[read(b"").at] * 2).requests
