"""No error about the configuration repeats a value, because a wrong value may contain a password."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from featuregate.config import KEYS, Settings
from featuregate.config.properties_file import read_properties
from featuregate.config.secrets import is_path
from featuregate.errors import ConfigError

SECRET = "hunter2"

BASES: list[dict[str, object]] = [
    {"bootstrap.servers": "a:9092", "security.protocol": protocol, **more}
    for protocol, more in [
        ("PLAINTEXT", {}),
        ("SSL", {}),
        ("SASL_PLAINTEXT", {"sasl.mechanism": "PLAIN", "sasl.username": "app", "sasl.password": "pw"}),
        ("SASL_SSL", {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://id.example"}),
        ("SASL_SSL", {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"}),
        ("SASL_SSL", {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}),
    ]
]
PASTED = [
    "{}",
    "app:{}",
    "app:{}@host:9092",
    "app:p@{}@host:9092",
    "app:{},x@host:9092",
    "host:9092,app:{}",
    "host:{}:9092",
    "[{}]:9092",
    "[fe80::1%{};]:9092",
    "SASL_SSL://app:{}@host",
    "PLAINTEXT://{}:x",
    "SSL://{}",
    "host;password={}",
    "host:9092?password={}",
    "https://app:{}@id.example/token",
    "https:///app:{}@id.example",
    "https://id.example:x/{}",
    "ftp://id.example/{}",
    "s3://key:{}@bucket/ca.pem",
    "https://app:{}/ca.pem",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj{}==",
    "-----BEGIN PRIVATE KEY----- {}",
    "{}\udcff",
    "a.ScramLoginModule required username=app password={}",
    "a.ScramLoginModule required username=app password={};",
    "a.ScramLoginModule {} username=app;",
    "a.ScramLoginModule required password='{};",
    "a.ScramLoginModule required password {};",
    "{}.OAuthBearerLoginModule required clientSecret={};",
    "principal= lifeSeconds={}",
    "principal=x lifeSeconds={}",
    "key={},{}",
    "{}, {}",
]
"""What people paste where something else belongs."""
LONG_KEY = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n" * 200
"""A text that the system refuses as a path, with an error that repeats it."""


def everything_of(error: BaseException, seen: tuple[BaseException, ...] = ()) -> Iterator[str]:
    """Yield all texts of an error and of its causes."""
    yield from (str(error), repr(error), repr(error.args), *getattr(error, "__notes__", ()))
    for behind in (error.__cause__, error.__context__):
        if behind is not None and behind not in seen:
            yield from everything_of(behind, (*seen, error))


def parsed(config: Any, **options: Any) -> Settings | None:
    """Parse a configuration; if it is refused, the error must contain no secret."""
    try:
        return Settings.parse(config, **options)
    except ConfigError as caught:
        error = caught
    assert SECRET not in "\n".join(everything_of(error))
    return None


NAMED = {spelling: (key, spelling) for key in KEYS for spelling in key.spellings}
names = st.sampled_from(list(NAMED.values()))
wild = st.text(alphabet=":@?#[]%,;= \\\"'x9\n\0\udcffé", max_size=6)
values = (
    st.sampled_from(PASTED).map(lambda pasted: pasted.format(SECRET, SECRET))
    | st.builds(lambda before, after: f"{before}{SECRET}{after}", wild, wild)
    | st.sampled_from([[SECRET], {"a": SECRET}, SECRET.encode()])
)


@given(base=st.sampled_from(BASES), named=names, value=values, listed=st.booleans(), spark=st.booleans())
@example(base=BASES[0], named=NAMED["bootstrap.servers"], value="user:hunter2@host:9092", listed=False, spark=False)
@example(base=BASES[0], named=NAMED["featuregate.exclude.apis"], value="hunter2", listed=False, spark=False)
@example(base=BASES[1], named=NAMED["ssl.ca.location"], value=LONG_KEY, listed=False, spark=False)
@example(base=BASES[2], named=NAMED["sasl.password"], value="hunter2\udcff", listed=False, spark=False)
@example(base=BASES[2], named=NAMED["client.id"], value="hunter2\udcff", listed=False, spark=False)
def test_invariant_12_no_property_is_repeated_by_an_error(
    base: dict[str, object], named: tuple[Any, str], value: object, *, listed: bool, spark: bool
) -> None:
    """The parser keeps any value of any property out of its errors, and secrets out of the repr of settings."""
    key, name = named
    config = {**base, "sasl.oauthbearer.client.id": "app", name: value}
    settings = parsed(
        {f"kafka.{key}": value for key, value in config.items()} if spark else config,
        broker_list="bootstrap" if listed else "cluster",
    )
    if settings is not None and key.kind == "secret":
        assert SECRET not in repr(settings)


@given(value=values.filter(lambda value: isinstance(value, str)))
def test_invariant_12_a_bootstrap_list_is_not_repeated_by_an_error(value: str) -> None:
    """The configuration is the bootstrap list alone."""
    parsed(value)


@pytest.mark.parametrize("option", ["broker_list", "total_timeout"])
def test_invariant_12_no_option_is_repeated_by_an_error(option: str) -> None:
    """An app may read its options from a configuration, too."""
    assert parsed("a:9092", **{option: SECRET}) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfehunter2", "is in UTF-16, which Java does not read either"),
        (b"\0hunter2\xff", "is not text in UTF-8 or Latin-1: see byte 8"),
        (b"sasl.password=\\u00zz hunter2", "escape"),
        (b"sasl.password=hunter2\\u12hunter2", "escape"),
    ],
)
def test_invariant_12_a_file_that_does_not_parse_is_not_repeated_by_an_error(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    """The error of the decoder would contain the whole file."""
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"client\.properties.*{problem}") as caught:
        read_properties(path)
    assert SECRET not in "\n".join(everything_of(caught.value))


def test_invariant_12_an_address_where_the_path_of_a_file_belongs_is_not_repeated(tmp_path: Path) -> None:
    """Path() accepts any text, also an address with a password."""
    assert parsed(tmp_path / "app:hunter2@host:9092") is None


@pytest.mark.parametrize(
    "text", ["/etc/ssl/ca", "ca.pem", "./certs/my ca.crt", "~/client.properties", "../a+b/c_d.p12"]
)
def test_a_path_is_shown(text: str) -> None:
    """Most errors about files are typos in the path."""
    assert is_path(text)


@pytest.mark.parametrize("text", ["hunter2", "", "a@b.pem", "s3://b/ca.pem", "MIIEvQIBADANBgkq", "/a" * 101, "a\n.pem"])
def test_what_may_be_no_path_is_not_shown(text: str) -> None:
    """The text may be a key, a password or a URL."""
    assert not is_path(text)
