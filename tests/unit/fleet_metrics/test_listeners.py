"""What listeners allow: by the configs of brokers, and by an option."""

import pytest

from featuregate_fleet.metrics.listeners import BrokerListener, configs_of, listener_argument, listeners_of

MAP = "listener.security.protocol.map"
MECHANISMS = "sasl.enabled.mechanisms"
NAMES = ("CLIENT", "INTERNAL", "CONTROLLER")
CONFIGS = {
    MAP: "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    MECHANISMS: "SCRAM-SHA-256",
    "inter.broker.listener.name": "INTERNAL",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CLIENT://:9092,INTERNAL://:9093,CONTROLLER://:9094",
}
SCRAM = frozenset({"SCRAM-SHA-256"})


def test_configs_say_the_mechanisms_and_which_listeners_are_of_nodes() -> None:
    """A listener without SASL allows none, which is known."""
    assert listeners_of(NAMES, [CONFIGS]) == {
        "CLIENT": BrokerListener(mechanisms=SCRAM),
        "INTERNAL": BrokerListener(mechanisms=frozenset(), of_nodes=True),
        "CONTROLLER": BrokerListener(mechanisms=frozenset(), of_nodes=True),
    }


def test_a_listener_may_have_mechanisms_of_its_own() -> None:
    """They replace those of all listeners; brokers are asked for them by name."""
    own = f"listener.name.client.{MECHANISMS}"
    assert own in configs_of(NAMES)
    assert listeners_of(["CLIENT"], [CONFIGS | {own: "PLAIN, OAUTHBEARER"}])["CLIENT"].mechanisms == {
        "PLAIN",
        "OAUTHBEARER",
    }


def test_brokers_that_differ_allow_what_any_of_them_does() -> None:
    """So a client may log in by either."""
    found = listeners_of(["CLIENT"], [CONFIGS, CONFIGS | {MECHANISMS: "PLAIN"}])["CLIENT"]
    assert found.mechanisms == {"PLAIN", "SCRAM-SHA-256"}


def test_a_broker_that_does_not_show_its_configs_leaves_all_unknown() -> None:
    """And so does a listener that no config names, or one without a list of mechanisms."""
    assert listeners_of(["CLIENT"], [CONFIGS, None])["CLIENT"].mechanisms is None
    assert listeners_of(["OTHER"], [CONFIGS])["OTHER"].mechanisms is None
    assert listeners_of(["CLIENT"], [])["CLIENT"].mechanisms is None
    without = {key: value for key, value in CONFIGS.items() if key != MECHANISMS}
    assert listeners_of(["CLIENT"], [without])["CLIENT"].mechanisms is None


def test_a_name_that_an_exporter_has_changed_is_found() -> None:
    """Some write it in small letters, and an underscore for a dash."""
    configs = CONFIGS | {MAP: "EXT-1:SASL_SSL"}
    assert listeners_of(["ext_1"], [configs])["ext_1"].mechanisms == SCRAM


def test_a_broker_without_a_map_names_listeners_by_their_protocols() -> None:
    """And brokers connect by the protocol that is set for them, PLAINTEXT by default."""
    found = listeners_of(
        ["PLAINTEXT", "SASL_SSL"], [{MECHANISMS: "PLAIN", "listeners": "PLAINTEXT://:1,SASL_SSL://:2"}]
    )
    assert found == {
        "PLAINTEXT": BrokerListener(mechanisms=frozenset(), of_nodes=True),
        "SASL_SSL": BrokerListener(mechanisms=frozenset({"PLAIN"})),
    }


@pytest.mark.parametrize("listeners", ["INTERNAL://:9093,CONTROLLER://:9094", ""])
def test_a_listener_of_brokers_is_of_clients_too_where_they_have_no_other(listeners: str) -> None:
    """A client without a name on it is not a broker."""
    assert not listeners_of(["INTERNAL"], [CONFIGS | {"listeners": listeners}])["INTERNAL"].of_nodes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CLIENT=SCRAM-SHA-256", BrokerListener(mechanisms=SCRAM)),
        ("CLIENT=plain, gssapi", BrokerListener(mechanisms=frozenset({"PLAIN", "GSSAPI"}))),
        ("CLIENT=none", BrokerListener(mechanisms=frozenset())),
        ("CLIENT=brokers", BrokerListener(of_nodes=True)),
    ],
)
def test_an_option_says_what_a_listener_allows(text: str, expected: BrokerListener) -> None:
    """Mechanisms in any case, none of them, or that brokers alone connect."""
    assert listener_argument(text) == ("CLIENT", expected)


@pytest.mark.parametrize("text", ["CLIENT", "CLIENT=", "=PLAIN", "CLIENT=SCRAM"])
def test_an_option_that_says_nothing_is_refused(text: str) -> None:
    """With what to write."""
    with pytest.raises(ValueError, match="is not a listener with what it allows: write NAME="):
        listener_argument(text)
