"""Bootstrap lists and their addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.config import Address, Settings
from featuregate.errors import ConfigError


def addresses(text):
    """Return the addresses of a bootstrap list."""
    return Settings.parse(text).bootstrap


def test_a_list_of_hosts_and_ports_parses():
    """Commas separate addresses, and the parser ignores white space around them."""
    assert addresses("a:1, b.example.com:2 ,") == (Address("a", 1), Address("b.example.com", 2))


def test_a_port_that_is_left_out_is_9092():
    """The parser has the default of librdkafka."""
    assert addresses("broker,[::1]") == (Address("broker", 9092), Address("::1", 9092))


def test_ipv6_literals_take_brackets():
    """The parser keeps the host without brackets, and str() puts them back."""
    (address,) = addresses("[2001:db8::7]:9093")
    assert address == Address("2001:db8::7", 9093)
    assert str(address) == "[2001:db8::7]:9093"


def test_a_bare_ipv6_literal_is_a_host_without_port():
    """A text with more than one colon can only be an IPv6 literal."""
    assert addresses("::1") == (Address("::1", 9092),)


def test_a_name_in_any_script_is_a_host():
    """The resolver encodes the name for DNS."""
    assert addresses("bücher.example:1,my_broker") == (Address("bücher.example", 1), Address("my_broker", 9092))


def test_a_zone_of_an_ipv6_literal_stays_with_the_host():
    """A link-local address needs its network interface."""
    assert addresses("[fe80::1%eth0]:9092") == (Address("fe80::1%eth0", 9092),)


def test_a_listener_name_in_front_is_dropped():
    """Kafka's broker configuration writes listeners in this form."""
    assert addresses("PLAINTEXT://a:9092,EXTERNAL://b:9094/") == (Address("a", 9092), Address("b", 9094))


def test_a_scheme_that_contradicts_the_protocol_is_an_error():
    """An SSL listener never answers a client that speaks plain text."""
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: address 2 of 2 asks for SSL, but security"):
        Settings.parse("b:9092,SSL://a:9093")


def test_an_address_that_is_named_twice_is_asked_once():
    """Otherwise one broker would count twice."""
    assert addresses("a:9092,a,b,PLAINTEXT://a:9092") == (Address("a", 9092), Address("b", 9092))


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


@pytest.mark.parametrize(
    "text",
    ["a:9092;b:9092", "a:9092; b:9092", "a:9092 b:9092", "a;b", "PLAINTEXT://a:9092;b:9092", "[::1]:9092;b:9092"],
)
def test_another_sign_than_a_comma_between_addresses_is_named(text):
    """Neither a port nor IPv6 is the mistake."""
    with pytest.raises(ConfigError, match="has a semicolon or a blank within: put commas between addresses"):
        Settings.parse(text)


def test_any_other_sign_between_addresses_gets_the_advice_too():
    """The colons of two ports look like IPv6."""
    with pytest.raises(ConfigError, match="is not host:port; several have commas between"):
        Settings.parse("a:9092|b:9092")
