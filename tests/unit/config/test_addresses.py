"""Bootstrap lists and their addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.config import Address, Settings
from featuregate.errors import ConfigError


def addresses(text):
    """Return the addresses of a bootstrap list."""
    return Settings.parse(text).bootstrap


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a:1, b.example.com:2 ,", [("a", 1), ("b.example.com", 2)], id="blanks around commas"),
        pytest.param("broker,[::1]", [("broker", 9092), ("::1", 9092)], id="without port: librdkafka's default"),
        pytest.param("::1", [("::1", 9092)], id="several colons: an IPv6 literal without port"),
        pytest.param("bücher.example:1,my_broker", [("bücher.example", 1), ("my_broker", 9092)], id="any script"),
        pytest.param("[fe80::1%eth0]:9092", [("fe80::1%eth0", 9092)], id="a link-local address and its interface"),
        pytest.param("PLAINTEXT://a:9092,EXTERNAL://b:9094/", [("a", 9092), ("b", 9094)], id="names of listeners"),
        pytest.param("a:9092,a,b,PLAINTEXT://a:9092", [("a", 9092), ("b", 9092)], id="named twice, asked once"),
    ],
)
def test_a_list_of_addresses_parses(text, expected):
    """As Kafka's broker configuration and librdkafka write them; a broker that is named twice counts once."""
    assert addresses(text) == tuple(Address(host, port) for host, port in expected)


def test_ipv6_literals_take_brackets():
    """The parser keeps the host without brackets, and str() puts them back."""
    (address,) = addresses("[2001:db8::7]:9093")
    assert address == Address("2001:db8::7", 9093)
    assert str(address) == "[2001:db8::7]:9093"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "a:0",
        "a:65536",
        "a:-1",
        "a:x",
        "a:",
        "a:٣",
        "a b:1",
        ":9092",
        "[::1",
        "[a]:1",
        "a:1:2",
        "a/b:1",
        "[]:1",
        "u@h",
        "[fe80::1%a;b]:9092",
        "::1:9092",
        "a,2001:db8::9093",
        "a;b=c:9092",
        "a?b=c",
    ],
)
def test_what_is_no_address_is_an_error_that_names_the_key(text):
    """The parser raises ConfigError, whatever is wrong with the address."""
    with pytest.raises(ConfigError) as caught:
        Settings.parse(text)
    assert caught.value.key == "bootstrap.servers"


hosts = st.one_of(
    st.from_regex(r"[a-z0-9]([a-z0-9_.\-]{0,20}[a-z0-9])?", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)


@given(st.lists(st.builds(Address, hosts, st.integers(1, 65535)), min_size=1, max_size=5, unique=True))
def test_what_str_writes_is_what_parse_reads(expected):
    """The parser reads the text of any address as the same address."""
    assert addresses(",".join(map(str, expected))) == tuple(expected)


@given(st.text(max_size=40))
def test_any_text_parses_or_is_a_config_error(text):
    """The parser raises no other exception."""
    try:
        parsed = addresses(text)
    except ConfigError:
        return
    assert all(address.host and 0 < address.port < 65536 for address in parsed)
