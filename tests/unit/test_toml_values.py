"""TOML of limited size: the standard library takes the square of the parts of a key, in time and memory."""

import pytest

from featuregate.budgets import MOST_KEY_PARTS, MOST_TOML_CHARACTERS
from featuregate.toml_values import parse_toml


def key(parts: int, part: str = "a", dot: str = ".") -> str:
    return dot.join([part] * parts)


@pytest.mark.parametrize("part", ["a", '"a.\\"b"', "'a'", "ü-1"])
@pytest.mark.parametrize("dot", [".", " .\t"])
@pytest.mark.parametrize("place", ["x = 1\n{} = 1", "x = 1\n[{}]", "x = 1\ny = {{ {} = 1 }}", "x = 1\n[[ {} ]]"])
def test_a_key_has_a_limited_number_of_parts(part: str, dot: str, place: str):
    """The error names the line. One part less is for the parser."""
    with pytest.raises(ValueError, match=f"a key in line 2 has more than {MOST_KEY_PARTS} parts"):
        parse_toml(place.format(key(MOST_KEY_PARTS + 1, part, dot)))
    last = place.format(key(MOST_KEY_PARTS, part, dot))
    if "ü" in last:
        with pytest.raises(ValueError, match="line 2, column"):
            parse_toml(last)
    else:
        assert parse_toml(last)["x"] == 1


def test_texts_and_comments_may_have_dots():
    """Only keys count."""
    deep = key(1000)
    assert parse_toml(f'# {deep}\nx = "{deep} \\" {deep}"\ny = \'{deep}\'') == {"x": f'{deep} " {deep}', "y": deep}


@pytest.mark.parametrize("text", ['\\"', "\\'", 'a."', "'\"", '"\\'])
def test_a_document_is_read_in_one_pass(text: str):
    """Escaped quotes took the square of their number: minutes for a document of the allowed size."""
    with pytest.raises(ValueError, match=r"."):
        parse_toml(text * (MOST_TOML_CHARACTERS // len(text)))


def test_a_document_has_a_limited_size():
    """At the limit it is read."""
    assert parse_toml("#" * MOST_TOML_CHARACTERS) == {}
    with pytest.raises(ValueError, match="more than 1,048,576 characters"):
        parse_toml("#" * (MOST_TOML_CHARACTERS + 1))


def test_a_document_that_is_nested_too_deeply_is_a_value_error():
    """Its parser recurses."""
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_toml("a = " + "[" * 100_000)
