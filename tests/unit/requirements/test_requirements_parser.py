"""Requirements as text: what the parser accepts, and the position of each error."""

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import named, requirements

from featuregate.catalog import MetadataLevel, captured_releases, metadata_levels
from featuregate.errors import RequirementError
from featuregate.requirements import Api, Feature, Named, Release, Requirement, parse, presets

G, F, P = Feature("group.version") >= 1, Api("Fetch") >= 4, Api("Produce") >= 7


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("group.version>=1", G),
        ("  group.version  >=  1  ", G),
        ("group.version>=1 & ConsumerGroupHeartbeat>=0", G & (Api(68) >= 0)),
        ("group.version>=1&Fetch>=4|Produce>=7", (G & F) | P),
        ("group.version>=1 & (Fetch>=4 | Produce>=7)", G & (F | P)),
        ("((Fetch>=4))", F),
        ("fetch>=4", F),
        ("TXN_OFFSET_COMMIT>=3", Api(28) >= 3),
        ("Fetch in 4..11", Api("Fetch").between(4, 11)),
        ("api:999>=1", Api(999) >= 1),
        ("api:1>=4", F),
        ("feature:group.version>=1", G),
        ("feature:Fetch>=1", Feature("Fetch") >= 1),
        ("feature:brand.new.version>=1", Feature("brand.new.version") >= 1),
        ("feature:release>=1", Feature("release") >= 1),
    ],
)
def test_texts_read(text: str, means: Requirement) -> None:
    """In a text ``&`` binds tighter than ``|``; the parser ignores spaces, and the case of APIs."""
    assert parse(text) == means


@pytest.mark.parametrize("level", metadata_levels().values(), ids=lambda level: level.name)
def test_the_name_of_a_metadata_version_is_its_number(level: MetadataLevel) -> None:
    """The text of the requirement has the number, whichever spelling was parsed."""
    by_name = parse(f"metadata.version >= {level.name}")
    assert by_name == parse(f"feature:metadata.version>={level.name}") == (Feature("metadata.version") >= level.name)
    assert by_name == parse(f"metadata.version>={level.level}")
    assert str(by_name) == f"metadata.version>={level.level}"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("3.3-IV9", "did you mean 3.3-IV3 or 3.3-IV2 or 3.3-IV1?"),
        ("3.3-iv3", "did you mean 3.3-IV3 or "),
        ("4.2", "did you mean 4.2-IV1 or 4.2-IV0?"),
        ("77.7-IV7", "names go from 3.0-IV1 to 4.4-IV2"),
    ],
)
def test_a_name_that_no_metadata_version_has_is_refused_with_near_ones(name: str, near: str) -> None:
    """A release is not a level, because it may have several."""
    with pytest.raises(RequirementError) as caught:
        parse(f"Fetch>=4 & metadata.version>={name}")
    assert f"no metadata.version is called '{name}'; {near}" in caught.value.problem
    assert (caught.value.position, "\n" in str(caught.value)) == (len("Fetch>=4 & metadata.version>="), False)
    with pytest.raises(RequirementError, match=r"did you mean|names go from"):
        _ = Feature("metadata.version") >= name


def test_only_levels_of_metadata_version_have_names() -> None:
    """The levels of other features are numbers."""
    with pytest.raises(RequirementError, match=r"expected a number, not .3\.3-IV3."):
        parse("group.version>=3.3-IV3")
    with pytest.raises(TypeError, match="a finalized level is an int"):
        _ = Feature("group.version") >= "3.3-IV3"


def test_a_release_reads() -> None:
    """The parser ignores the patch number."""
    release = captured_releases()[-1]
    assert parse(f"release>={release}") == parse(f"release >= {release}.1") == Release(release)


@given(requirements)
def test_the_text_of_a_requirement_reads_as_an_equal_one(requirement: Requirement) -> None:
    """Latches and command lines rely on it."""
    assert parse(str(requirement)) == requirement
    assert str(parse(str(requirement))) == str(requirement)


@given(requirements, named)
def test_the_text_of_what_has_a_name_reads_as_what_the_name_stands_for(requirement: Requirement, name: Named) -> None:
    """The text also parses where it is combined with others."""
    assert parse(str(requirement & name)) == requirement & name.requirement
    assert parse(str(requirement | name)) == requirement | name.requirement


@pytest.mark.parametrize("preset", presets.all())
def test_the_text_of_a_preset_reads(preset) -> None:
    """The parser returns the requirement that the preset stands for."""
    assert parse(str(preset)) == preset.requirement


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "expected a condition, but the text ends"),
        ("Fetch>=4 &", 10, "expected a condition, but the text ends"),
        ("Fetch", 5, "expected '>='"),
        ("Fetch => 4", 6, "expected '>=', not '=>'"),
        ("Fetch > 4", 6, "expected '>=', not '>'"),
        ("Fetch >=", 8, "expected a number"),
        ("Fetch >= four", 9, "expected a number, not 'four'"),
        ("Fetch >= -1", 9, "an API version is from 0 to 32767 here"),
        ("group.version >= 0", 17, "a finalized level is from 1 to 32767 here"),
        ("Fetch>=4 Produce>=7", 9, "expected & or |, not 'Produce'"),
        ("Fetch>=4 and Produce>=7", 9, "expected & or |, not 'and': write &"),
        ("Fetch>=4 || Produce>=7", 9, "expected & or |, not '||': write |"),
        ("(Fetch>=4", 9, "expected ')'"),
        ("(Fetch>=4 && Produce>=7)", 10, "expected ')', not '&&': write &"),
        ("Fetch>=4)", 8, "expected & or |, not ')'"),
        (">=4", 0, "expected a preset, a feature, an API or release, not '>='"),
        ("Fetch in 4", 9, "expected a range of versions, such as Fetch in 4..11"),
        ("Fetch in 11..4", 9, "the highest API version is from 11 to 32767 here"),
        ("group.version in 1..2", 14, "expected '>=', not 'in'"),
        ("release>=new", 9, "expected a release, such as release>=3.9"),
        ("release>=0.8", 9, "no broker of release '0.8' has been captured"),
        ("grop.version>=1", 0, "did you mean group.version"),
        ("Fetch>=4 & TxnOfsetCommit>=3", 11, "did you mean TxnOffsetCommit"),
        ("xyzzy>=1", 0, "'xyzzy' is not a known preset, API or feature (write feature:xyzzy"),
        ("api:fetch>=1", 0, "'api:fetch' is not a known preset, API or feature"),
        ("api:99999>=1", 0, "an API key is from 0 to 32767 here"),
        ("feature:>=1", 0, "a feature's name has at least one character"),
        ("(" * 51 + "Fetch>=4" + ")" * 51, 50, "parentheses are nested deeper than 50"),
    ],
)
def test_an_error_points_at_its_place(text: str, position: int, problem: str) -> None:
    """The error has the position, and a note with a caret under it."""
    with pytest.raises(RequirementError) as raised:
        parse(text)
    error = raised.value
    assert problem in error.problem
    assert (error.text, error.position) == (text, position)
    assert error.__notes__ == [f"{text}\n{' ' * position}^"]


def test_only_text_is_parsed() -> None:
    """The parser refuses a requirement, which needs no parsing."""
    with pytest.raises(TypeError, match="is parsed from text"):
        parse(G)


@given(st.text(alphabet="Fetch group.version>=1234()&|..in api:", max_size=40) | st.text(max_size=20))
def test_any_text_reads_or_is_refused(text: str) -> None:
    """The parser raises no other exception, whatever the text."""
    with contextlib.suppress(RequirementError):
        requirement = parse(text)
        assert parse(str(requirement)) == requirement


@given(st.text(alphabet="Fetch group.version>=1234()&|..in api:", max_size=40).filter(lambda text: "=" not in text))
def test_an_error_points_into_the_text(text: str) -> None:
    """The position of an error lies in the text or at its end."""
    with pytest.raises(RequirementError) as raised:
        parse(text)
    assert 0 <= raised.value.position <= len(text)


@pytest.mark.parametrize("preset", presets.all())
def test_a_preset_is_parsed_by_its_name(preset: presets.Preset) -> None:
    """The name stands for the preset, alone, in parentheses, and where it is combined."""
    assert parse(f" {preset.name} ") is parse(f"({preset.name})") is preset
    assert parse(f"{preset.name} & group.version>=1") == preset & (Feature("group.version") >= 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("kip484", "did you mean kip848"), ("zsdt", "did you mean zstd"), ("kip447>=1", "expected & or |, not '>='")],
)
def test_the_name_of_a_preset_is_checked(text: str, problem: str) -> None:
    """A misspelt name gets a hint, and a preset has no level."""
    with pytest.raises(RequirementError, match=re.escape(problem)):
        parse(text)


def test_a_text_of_blanks_takes_time_in_its_length() -> None:
    """A pattern with optional blanks before a sign would try each blank anew: minutes for these texts."""
    began = time.process_time()
    for text in (f"kip848|{' ' * 1_000_000}", f"kip848{chr(0x2003) * 1_000_000}&", " " * 1_000_000):
        with pytest.raises(RequirementError):
            parse(text)
    assert time.process_time() - began < 10  # seconds of the processor: the pattern took hours
