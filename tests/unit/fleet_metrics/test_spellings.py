"""Each way in which exporters spell the metrics: the same content from all of them."""

import pytest
from metrics_pages import PAGES, read

from featuregate_fleet.metrics.spellings import (
    Connected,
    Converted,
    Deprecated,
    Requests,
    Unusable,
    meaning_of,
    own_labels,
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
    found = read((PAGES / name).read_bytes()).values
    pairs = {pair: count for pair, count in found.items() if isinstance(pair, Requests)}
    assert len(pairs) == 33
    assert pairs[Requests("Metadata", 0)] == 7
    assert pairs[Requests("Fetch", 3)] == (9 if "confluent" in name else 7)
    assert pairs[Requests("BrokerRegistration", 4)] == 1


@pytest.mark.parametrize("name", REAL)
def test_the_software_of_deprecated_requests_is_read_in_each_mangled_form(name: str) -> None:
    """Fetch 3 was sent by librdkafka, and Fetch 1 and Produce 1 by a client without a name."""
    found = read((PAGES / name).read_bytes()).values
    assert {one for one in found if isinstance(one, Deprecated) and one.api != "FetchConsumer"} == {
        OF_LIBRDKAFKA,
        Deprecated("Fetch", 1, "unknown", "unknown"),
        Deprecated("Produce", 1, "unknown", "unknown"),
    }


@pytest.mark.parametrize("name", SPELLED)
def test_other_rules_say_the_same(name: str) -> None:
    one = read((PAGES / name).read_bytes())
    found = one.values
    assert one.unread == 0
    assert {pair: count for pair, count in found.items() if isinstance(pair, Requests)} == {
        Requests("Fetch", 3): 7,
        Requests("FetchConsumer", 3): 7,
    }
    assert [one for one in found if isinstance(one, Deprecated)] == [OF_LIBRDKAFKA]
    listener = "client" if "kraft" in name else "CLIENT"
    assert found[Connected("librdkafka", "1.9.2", listener, "0")] == 2
    assert str(one.started) == "2026-11-29 09:41:56.710000+00:00"


def test_confluent_and_strimzi_show_the_listener_of_each_software() -> None:
    """Six softwares of three listeners; the real pages without rules and of Bitnami have none."""
    for name in REAL:
        found = read((PAGES / name).read_bytes()).of(Connected)
        assert len(found) == (6 if "strimzi" in name or "confluent" in name else 0)


REQUESTS = "kafka_network_requestmetrics_requestspersec"
SOFTWARE = "kafka_server_socket_server_metrics_connections"
CONVERTED = "kafka_server_brokertopicmetrics_fetchmessageconversions_total"
BY_LABEL = "kafka_server_BrokerTopicMetrics_Count"
REPORTED = {"clientSoftwareName": "my_soft-x", "clientSoftwareVersion": "2_16_1-rdkafka-2_16_0", "version": "1"}


@pytest.mark.parametrize(
    ("name", "labels", "meaning"),
    [
        # Strimzi's Metrics Reporter: no name of a software has an underscore (KIP-511), so each is a dot.
        (
            "kafka_network_requestmetrics_deprecatedrequestspersec_total",
            {**REPORTED, "request": "Produce"},
            Deprecated("Produce", 1, "my.soft-x", "2.16.1-rdkafka-2.16.0"),
        ),
        (REQUESTS, {"request": "Fetch"}, Unusable("version")),
        (REQUESTS, {"request": "Fetch", "version": "x"}, Unusable("a version that is a number")),
        (REQUESTS, {"version": "3"}, Unusable("request")),
        (SOFTWARE, {"clientSoftwareName": "a", "listener": "B"}, Unusable("clientSoftwareVersion")),
        (SOFTWARE, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}, Unusable("listener")),
        (SOFTWARE, {"clientSoftwareVersion": "1", "listener": "B"}, Unusable("clientSoftwareName")),
        (SOFTWARE, {"listener": "B"}, None),
        (CONVERTED, {"topic": "t"}, Converted("fetch", "t")),
        (CONVERTED, {}, None),
        (BY_LABEL, {"name": "ProduceMessageConversionsPerSec", "topic": "t"}, Converted("produce", "t")),
        (BY_LABEL, {"name": "BytesInPerSec", "topic": "t"}, None),
        ("kafka_network_RequestMetrics_Count", {"name": "TotalTimeMs", "request": "Fetch"}, None),
        *((name, {"request": "Fetch", "version": "3"}, None) for name in (f"{REQUESTS}_oneminuterate", "up")),
    ],
)
def test_a_metric_says(name: str, labels: dict[str, str], meaning: object) -> None:
    assert meaning_of(name, labels) == meaning


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


def test_a_client_that_calls_itself_as_the_rules_write_a_name_is_unknown_at_once() -> None:
    """A name of 32 kB may have thousands of the words between the values: to try each of them takes years."""
    name = "_clientsoftwareversion_a_listener_a_networkprocessor_1" * 500
    of_kraft = f"kafka_server_socket_server_metrics_clientsoftwarename_a{name}_x_connections"
    assert meaning_of(of_kraft, {}) == Unusable("clientSoftwareName")


def test_a_label_that_prometheus_renamed_is_the_one_of_the_broker() -> None:
    """It keeps a label of the target, such as a version of a pod, under the name that both have."""
    of_pod = {"version": "4", "listener": "nlb", "name": "kafka-0"}
    requests = {"request": "Fetch", "exported_version": "2"}
    assert meaning_of("kafka_network_requestmetrics_requests_total", of_pod | requests) == Requests("Fetch", 2)
    software = {"clientSoftwareName": "sarama", "clientSoftwareVersion": "1", "exported_listener": "CLIENT"}
    found = meaning_of("kafka_server_socket_server_metrics_connections", of_pod | software)
    assert found == Connected("sarama", "1", "CLIENT", "")
    own = own_labels(of_pod | requests | {"exported_name": "RequestsPerSec", "pod": "kafka-0"})
    assert own.keys() == of_pod.keys() | requests.keys() | {"exported_name"}
    counted = {"exported_name": "RequestsPerSec", **requests}
    assert meaning_of("kafka_network_requestmetrics_count", of_pod | counted) == Requests("Fetch", 2)
