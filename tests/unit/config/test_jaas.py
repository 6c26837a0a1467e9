"""The parser of ``sasl.jaas.config``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.config.jaas import parse_jaas
from featuregate.errors import ConfigError

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_login_module_with_options_parses():
    """The options may be on several lines."""
    login = parse_jaas("k", f'{MODULE} required\n  username="app"\n  password="p";')
    assert login == ("PlainLoginModule", {"username": "app", "password": "p"})


def test_a_login_module_without_options_parses():
    """Callback handlers need no options."""
    assert parse_jaas("k", "a.B required ;").options == {}


def test_marks_within_quotes_are_part_of_the_value():
    """A password may contain any character."""
    assert parse_jaas("k", f'{MODULE} required password="a=\\"b\\";\\\\c;";').options == {"password": 'a="b";\\c;'}


def test_single_quotes_are_quotes_too():
    """Java's tokenizer accepts both kinds of quotes, and either may stand within the other."""
    text = f"{MODULE} required username='app' password='a=\"b\";c;' note=\"it's\";"
    assert parse_jaas("k", text).options == {"username": "app", "password": 'a="b";c;', "note": "it's"}


def test_bare_values_parse():
    """Java accepts values without quotes."""
    assert parse_jaas("k", f"{MODULE} REQUIRED tokenauth=true;").options == {"tokenauth": "true"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "a;",
        "a required",
        "a sometimes x=1;",
        'a required x="1',
        "a required x='1",
        "a required x;",
        "a required x=;",
        "a required =x;",
    ],
)
def test_what_java_would_refuse_is_an_error_without_the_text(text):
    """The text may contain a password, so the error does not repeat it."""
    with pytest.raises(ConfigError) as caught:
        parse_jaas("sasl.jaas.config", text.replace("x", "hunter2"))
    assert "hunter2" not in str(caught.value)


def test_invariant_9_a_login_shows_no_options():
    """The repr of a login contains no option, because options contain secrets."""
    assert "hunter2" not in repr(parse_jaas("k", f"{MODULE} required password=hunter2;"))


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_]{1,10}", fullmatch=True), st.text(max_size=20), max_size=4))
def test_any_values_survive_quoting(options):
    """The parser reads backslashes, quotes and semicolons within quotes."""
    quoted = "".join(
        ' {}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in options.items()
    )
    assert parse_jaas("k", f"{MODULE} required{quoted};").options == options
