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
    assert (login.module, login.options) == ("PlainLoginModule", {"username": "app", "password": "p"})
    assert f"{login.package}.{login.module}" == MODULE


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required ;", {}),  # callback handlers need none
        (f'{MODULE} required password="a=\\"b\\";\\\\;c;";', {"password": 'a="b";\\;c;'}),
        (
            f"{MODULE} required username='app' password='a=\"b\";c;' note=\"it's\";",
            {"username": "app", "password": 'a="b";c;', "note": "it's"},
        ),
        (f"{MODULE} REQUIRED tokenauth=true;", {"tokenauth": "true"}),  # Java accepts values without quotes
    ],
)
def test_values_in_quotes_may_hold_anything(text, options):
    """Marks within quotes of either kind are a part of the value: a password may contain any character."""
    assert parse_jaas("k", text).options == options


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


def test_invariant_12_a_login_shows_no_options():
    """The repr of a login contains no option, because options contain secrets."""
    assert "hunter2" not in repr(parse_jaas("k", f"{MODULE} required password=hunter2;"))


on_one_line = st.text(st.characters(exclude_characters="\r\n"), max_size=20)


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_]{1,10}", fullmatch=True), on_one_line, max_size=4))
def test_any_values_survive_quoting(options):
    """The parser reads backslashes, quotes and semicolons within quotes."""
    quoted = "".join(
        ' {}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in options.items()
    )
    assert parse_jaas("k", f"{MODULE} required{quoted};").options == options


M = f"{MODULE} required "


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (M + "username=$ConnectionString password='x';", {"username": "$ConnectionString", "password": "x"}),
        (M + "username=user.name password=a-b_c$d;", {"username": "user.name", "password": "a-b_c$d"}),
        (
            M + 'username="u" password="Endpoint=sb://x/;Key=b=";',
            {"username": "u", "password": "Endpoint=sb://x/;Key=b="},
        ),
        (M + '/* one */ username="u" // two\n password="p";', {"username": "u", "password": "p"}),
        ("// first\n" + M + "username=u;", {"username": "u"}),
        (M + "username=u password=a//b\n;", {"username": "u", "password": "a"}),
        (M + "username=a.5/x\n;", {"username": "a.5"}),
        (M + r'username="u\"x" password="p\\q\141\x\v\a\n\400";', {"username": 'u"x', "password": "p\\qax\v\a\n 0"}),
        (M + r'password="\u0041";', {"password": "u0041"}),
        (M + 'a="x"b="y";', {"a": "x", "b": "y"}),
        (M + 'username="u" username="v";', {"username": "v"}),
        (M + 'a="x\\\ny";', {"a": "x\ny"}),
        (M + "password=\u00fc\u00a0\u20ac;", {"password": "\u00fc\u00a0\u20ac"}),
        (f'"{MODULE}" required "username"="u";', {"username": "u"}),
    ],
)
def test_a_text_means_what_it_means_to_java(text, options):
    """The values are those of Kafka's own JaasConfig, which tests/live/test_java_settings_live.py asks."""
    assert parse_jaas("k", text).options == options


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("KafkaClient { " + M + 'username="u" password="p"; };', "is a section of a JAAS file"),
        ("KafkaClient{\n" + M + 'username="u";\n};', "is a section of a JAAS file"),
        ("'" + M + 'username="u" password="p";' + "'", "begins with a quote: remove the quotes around the whole text"),
        ('"' + M + 'username="u" password="p";"', "begins with a quote: remove the quotes around the whole text"),
        ('"' + M + r'username=\"u\" password=\"p\";"', "begins with a quote: remove the quotes around the whole text"),
        (M + 'username="u" password=Endpoint=sb://x/;Key=b=;', "option 2 (password) has a second = in a value"),
        (
            M + 'username="u" password=sb://x/;Key=b=;',
            "no semicolon at the end, where a slash outside of quotes begins",
        ),
        (M + 'username="u" password=a;b;', "goes on after its semicolon"),
        (M + 'username="u" password="p"; ' + M + 'username="u" password="p";', "give one login module"),
        (M + 'username="u" password="p"', "has no semicolon at the end"),
        (M + 'username="u", password="p";', "has a word after option 1 that is not of the form"),
        (M + 'password="p\n";', "has a quote without its partner on the same line"),
        (M + "username= ;", "option 1 (username) has no value"),
    ],
)
def test_an_error_says_where_the_text_broke(text, problem):
    """Java refuses each of these texts, too."""
    with pytest.raises(ConfigError) as caught:
        parse_jaas("k", text)
    assert problem in caught.value.problem


def test_lines_without_their_backslash_are_named():
    """What follows the first line of the text is a property of its own, as ``username=...``."""
    with pytest.raises(ConfigError, match=r"its next line, password and username, is read .*backslash"):
        parse_jaas("k", MODULE + " required", {"username", "password", "linger.ms"})
    with pytest.raises(ConfigError, match="next line, a login module, is read"):
        parse_jaas("k", "", {MODULE})
    with pytest.raises(ConfigError, match="second word"):
        parse_jaas("k", "a sometimes x=1;", {"username"})
