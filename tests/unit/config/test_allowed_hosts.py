"""The hosts to which a client may connect, whatever hosts the metadata of a cluster names."""

import pytest

from featuregate.config import Address, Settings
from featuregate.config.allowed_hosts import allowed_hosts
from featuregate.errors import ConfigError


def by_name(entries: str, host: str, port: int = 9092) -> bool:
    """Return whether the list has the host as it is written."""
    return allowed_hosts(entries).by_name(Address(host, port))


@pytest.mark.parametrize(
    ("entries", "host"),
    [
        ("kafka-1.example.com", "kafka-1.example.com"),
        ("Kafka-1.Example.com.", "KAFKA-1.example.COM"),
        ("kafka-1.example.com", "kafka-1.example.com."),
        ("b1, kafka-1.example.com:9092", "kafka-1.example.com"),
        ("*.example.com", "a.example.com"),
        ("*.Example.com.", "a.b.EXAMPLE.com."),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "B\u00dcCHER.example"),
        ("my_broker", "my_broker"),
        ("fe80::1%eth0", "FE80:0::1%eth0"),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0"),
    ],
)
def test_a_name_is_allowed_in_any_spelling(entries: str, host: str) -> None:
    """Case, the final dot, Unicode and the form of an IPv6 address make no difference."""
    assert by_name(entries, host)


@pytest.mark.parametrize(
    ("entries", "host"),
    [
        ("kafka-1.example.com", "kafka-1.example.com.evil.net"),
        ("kafka-1.example.com", "a.kafka-1.example.com"),
        ("kafka-1.example.com:9093", "kafka-1.example.com"),
        ("*.example.com", "example.com"),
        ("*.example.com", ".example.com"),
        ("*.example.com", "evilexample.com"),
        ("*.example.com", "fe80::1%a.example.com"),
        ("*.example.com", "x%.example.com"),
        ("fe80::1%eth0", "fe80::1%eth1"),
        ("fe80::1%eth0", "fe80::1"),
        ("10.0.0.5", "10.0.0.5"),
        ("b1", "\u00fc" * 80),
    ],
)
def test_other_names_are_not_allowed(entries: str, host: str) -> None:
    """An address is compared after name resolution only."""
    assert not by_name(entries, host)


@pytest.mark.parametrize(
    ("entries", "literal", "allowed"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/255.0.0.0", "10.1.2.3", True),
        ("10.0.0.0/8:9092", "10.1.2.3", True),
        ("10.0.0.0/8:9093", "10.1.2.3", False),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.0/104", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::/0", "10.0.0.1", False),
        ("0.0.0.0/0", "fd00::1", False),
        ("fd00::/8", "fd12::1", True),
        ("[fd00::]/8:9092", "fd12::1", True),
        ("[fd00::1]:9092", "fd00::1", True),
        ("[fd00::1]", "fd00::2", False),
        ("fe80::/10", "fe80::1%2", True),
        ("kafka", "10.0.0.1", False),
    ],
)
def test_an_address_is_allowed_by_its_network(entries: str, literal: str, *, allowed: bool) -> None:
    """IPv4 within IPv6 is IPv4, brackets may be there, and a port limits the entry to it."""
    hosts = allowed_hosts(entries)
    assert hosts.by_address(literal, 9092) is allowed
    assert not allowed or hosts.any_network(9092)


@pytest.mark.parametrize(
    "entries",
    [
        *("", " , ", "*", "*.", "*example.com", "a.*.com", "http://a", "a b", "u@b1", "b1:0", "b1:x", "b1:65536"),
        *("127.1", "a.0x7f", "10.0.0.0/33", "10.0.0.5/8", "10.0.0.5.", "[b1]x", "[b1", "x%eth0", "-a", "a..b"),
    ],
)
def test_what_is_no_host_is_an_error(entries: str) -> None:
    """An entry that could never match, or that would match everything, must not pass in silence."""
    with pytest.raises(ConfigError, match=r"featuregate\.allowed\.hosts"):
        Settings.parse({"bootstrap.servers": "b1", "featuregate.allowed.hosts": entries})


@pytest.mark.parametrize("given", [5, [], [5], {"a": 1}, ""])
def test_what_is_no_list_is_an_error(given: object) -> None:
    """An empty list would otherwise allow every host or none."""
    with pytest.raises(ConfigError, match="allowed_hosts"):
        Settings.parse("b1", allowed_hosts=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_allowed_hosts_are_a_property_or_an_argument(prefix: str) -> None:
    """The argument is for apps whose dict also configures librdkafka, which refuses the property."""
    config = {f"{prefix}bootstrap.servers": "h:1", f"{prefix}featuregate.allowed.hosts": "a,10.0.0.0/8"}
    assert Settings.parse(config).allowed_hosts == allowed_hosts(["a", "10.0.0.0/8"])
    assert Settings.parse(config, allowed_hosts=("b",)).allowed_hosts == allowed_hosts("b")
    assert Settings.parse("h:1").allowed_hosts is None
