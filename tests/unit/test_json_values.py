"""Documents of JSON: what is refused where they are read, and what errors show of them."""

import pytest

from featuregate import budgets
from featuregate.json_values import JsonError, JsonValue, parse_json


@pytest.mark.parametrize(
    "text",
    ['"\\ud800"', '{"\\uDFFF": 1}', '["\\udc00\\ud800"]', '"\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b'"\\ud800"'],
)
def test_what_no_text_can_hold_is_refused(text) -> None:
    """Half a surrogate pair, escaped or not, in a value or a name, and bytes that are not UTF-8."""
    with pytest.raises(JsonError, match="half a surrogate pair"):
        parse_json(text, "document")


@pytest.mark.parametrize(
    "text", ['"\\ud83d\\ude00"', '"\U0001f600"', '"\U0001f600"'.encode(), '"\U0001f600"'.encode("utf-16")]
)
def test_a_whole_pair_is_a_character(text) -> None:
    """However it is written."""
    assert parse_json(text, "document").value == "\U0001f600"


@pytest.mark.parametrize("text", ['"\\\\ud800"', '"\\uD7FF"', '"\\u00DF"', '"\\udbff\\udfff"'])
def test_what_only_looks_like_half_a_pair_is_read(text) -> None:
    """A backslash of its own, and characters beside the range of surrogates."""
    assert parse_json(text, "document").text()


def test_a_document_has_a_largest_number_of_values() -> None:
    """One more than is believed is refused before it is parsed."""
    most = "[" + "0," * (budgets.MOST_JSON_VALUES - 1) + "0]"
    assert len(parse_json(most, "document").items()) == budgets.MOST_JSON_VALUES
    with pytest.raises(JsonError, match="2000001 values, more than the 2000000"):
        parse_json("[" + most[1:-1] + ",0]", "document")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_a_document_that_is_nested_deeply_is_refused(text) -> None:
    """It raises no RecursionError."""
    with pytest.raises(JsonError, match="this is not JSON"):
        parse_json(text, "document")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("text", "expected an integer, not 'text'"),
        ("x" * 61, f"expected an integer, not '{'x' * 59}..."),
        ("x" * 10_000_000, f"expected an integer, not '{'x' * 59}..."),
        ([1, "a", None], r"expected an integer, not \[1, 'a', None\]"),
        ([[]] * 1_000_000, r"expected an integer, not \[\[\], \[\]"),
        ({"a": [1.5]}, r"expected an integer, not \{'a': \[1.5\]\}"),
        ({"a": "x" * 10_000_000}, r"expected an integer, not \{'a': 'xxx"),
    ],
)
def test_an_error_shows_the_start_of_a_value(value, says) -> None:
    """As Python shows it; the text of a large value is not made."""
    with pytest.raises(JsonError, match=says) as caught:
        JsonValue("document", value).integer()
    assert len(str(caught.value)) < 120


def test_an_error_shows_no_control_characters_of_names() -> None:
    """The place of an error consists of names, which a peer chose."""
    with pytest.raises(JsonError) as caught:
        parse_json('{"a\\u001b[31m\\n' + "x" * 1000 + '": 1}', "document").fields().popitem()[1].text()
    assert caught.value.where.startswith("document.a?[31m?xxx")
    assert len(str(caught.value)) < 300


def test_a_caller_that_checks_texts_itself_gets_half_a_pair() -> None:
    """Its error can say where in the document that is."""
    assert parse_json('"\\ud800"', "document", refuse_halves=False).value == "\ud800"
