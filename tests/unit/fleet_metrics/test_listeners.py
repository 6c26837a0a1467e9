"""What listeners allow: by the configs of brokers, and by an option."""

import itertools

import pytest

from featuregate_fleet.metrics.listeners import (
    BrokerListener,
    configs_of,
    listener_argument,
    listeners_of,
    with_listener,
)

MAP = "listener.security.protocol.map"
MECHANISMS = "sasl.enabled.mechanisms"
OWN = f"listener.name.client.{MECHANISMS}"
NAMES = ("CLIENT", "INTERNAL", "CONTROLLER")
CONFIGS = {
    MAP: "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    MECHANISMS: "SCRAM-SHA-256",
    "inter.broker.listener.name": "INTERNAL",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CLIENT://:9092,INTERNAL://:9093,CONTROLLER://:9094",
}
SCRAM = frozenset({"SCRAM-SHA-256"})
WITHOUT_SASL = BrokerListener(mechanisms=frozenset())
OF_NODES = BrokerListener(mechanisms=frozenset(), of_nodes=True)


def test_configs_say_the_mechanisms_and_which_listeners_are_of_nodes() -> None:
    """A listener without SASL allows none, which is known; without a map, listeners are named by their protocols."""
    assert listeners_of(NAMES, [CONFIGS]) == {
        "CLIENT": BrokerListener(mechanisms=SCRAM), "INTERNAL": OF_NODES, "CONTROLLER": OF_NODES
    }  # fmt: skip
    without_map = {MECHANISMS: "PLAIN", "listeners": "PLAINTEXT://:1,SASL_SSL://:2"}
    assert listeners_of(["PLAINTEXT", "SASL_SSL"], [without_map]) == {
        "PLAINTEXT": OF_NODES, "SASL_SSL": BrokerListener(mechanisms=frozenset({"PLAIN"}))
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "brokers", "allowed"),
    [
        ("CLIENT", [CONFIGS | {OWN: "PLAIN, OAUTHBEARER"}], {"PLAIN", "OAUTHBEARER"}),
        ("CLIENT", [CONFIGS | {MECHANISMS: "[plain,OAUTHBEARER]"}], {"PLAIN", "OAUTHBEARER"}),
        ("CLIENT", [CONFIGS, CONFIGS | {MECHANISMS: "PLAIN"}], {"PLAIN", "SCRAM-SHA-256"}),
        ("CLIENT", [CONFIGS, None], None),
        ("CLIENT", [], None),
        ("CLIENT", [CONFIGS | {MECHANISMS: ""}], None),
        ("OTHER", [CONFIGS], None),
        ("ext_1", [CONFIGS | {MAP: "EXT-1:SASL_SSL"}], SCRAM),
        ("ext_1", [CONFIGS | {MAP: "EXT-1:SASL_SSL", f"listener.name.ext-1.{MECHANISMS}": "PLAIN"}], {"PLAIN"}),
        ("ext_1", [CONFIGS | {MAP: "EXT-1:SSL,EXT_1:SASL_SSL"}], None),
        ("a_b_c", [CONFIGS | {MAP: "A.B-C:SASL_SSL"}], None),
        ("CLIENT", [CONFIGS | {MAP: " CLIENT : SASL_SSL , X: SSL"}], SCRAM),
        ("CLIENT", [CONFIGS | {MAP: "CLIENT:TLS"}], None),
    ],
    ids=[
        "of its own", "as a list", "brokers that differ allow what any of them does", "a broker that shows no configs",
        "no broker", "no list of mechanisms", "no such listener", "a name that an exporter has changed",
        "its own mechanisms", "two of such a name", "that may have its own ones", "with blanks",
        "a protocol that is not known",
    ],
)  # fmt: skip
def test_a_listener_allows(name: str, brokers: list[dict[str, str] | None], allowed: set[str] | None) -> None:
    assert listeners_of([name], brokers)[name].mechanisms == allowed


def test_brokers_are_asked_for_the_mechanisms_of_each_listener() -> None:
    assert OWN in configs_of(NAMES)
    assert "listener.name.ext-1.sasl.enabled.mechanisms" in configs_of(["ext_1"])


@pytest.mark.parametrize("listeners", ["INTERNAL://:9093,CONTROLLER://:9094", ""])
def test_a_listener_of_brokers_is_of_clients_too_where_they_have_no_other(listeners: str) -> None:
    """A client without a name on it is not a broker."""
    assert not listeners_of(["INTERNAL"], [CONFIGS | {"listeners": listeners}])["INTERNAL"].of_nodes


def test_an_option_says_what_a_listener_allows() -> None:
    for text, expected in (
        ("CLIENT=SCRAM-SHA-256", BrokerListener(mechanisms=SCRAM)),
        ("CLIENT=plain, gssapi", BrokerListener(mechanisms=frozenset({"PLAIN", "GSSAPI"}))),
        ("CLIENT=none", WITHOUT_SASL),
        ("CLIENT=brokers", BrokerListener(of_nodes=True)),
    ):
        assert listener_argument(text) == ("CLIENT", expected)
    for text in ("CLIENT", "CLIENT=", "=PLAIN", "CLIENT=SCRAM"):
        with pytest.raises(ValueError, match="is not a listener with what it allows: write NAME="):
            listener_argument(text)


def test_a_listener_that_is_given_again_allows_all_that_is_given() -> None:
    """One mechanism would prove that a login fails, or works, where the other one may be used."""

    def added(*given: str) -> dict[str, BrokerListener]:
        found = dict[str, BrokerListener]()
        for text in given:
            found = with_listener(found, *listener_argument(text))
        return found

    assert added("CLIENT=PLAIN", "CLIENT=SCRAM-SHA-256", "INTERNAL=brokers", "INTERNAL=brokers") == {
        "CLIENT": BrokerListener(mechanisms=frozenset({"PLAIN", "SCRAM-SHA-256"})),
        "INTERNAL": BrokerListener(of_nodes=True),
    }
    for one, other in itertools.combinations(("none", "brokers", "PLAIN"), 2):
        with pytest.raises(ValueError, match="CLIENT is given as what excludes another"):
            added(f"CLIENT={one}", f"CLIENT={other}")
