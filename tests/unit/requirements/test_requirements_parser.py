"""Requirements as text: what the parser accepts, and the position of each error."""

import ast
import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import named, requirements
from transcripts import retold, sections

from featuregate.catalog import MetadataLevel, captured_releases, metadata_levels
from featuregate.errors import RequirementError
from featuregate.requirements import Feature, Named, Release, Requirement, parse, presets

READ = sections(__file__, "texts.txt")


def told(line: str) -> str:
    """Return what a text means, or where it is refused; the error has a note with a caret under the place."""
    text = ast.literal_eval(line)
    try:
        return str(parse(text))
    except RequirementError as error:
        marked = (error.text, error.__notes__) == (text, [f"{text}\n{' ' * error.position}^"])
        return f"at {error.position}: {error.problem}" if marked else repr(error)


@pytest.mark.parametrize("scene", READ)
def test_texts_are_read_or_refused_as_kept(scene: str) -> None:
    """An error is one line, and points at its place."""
    assert retold(READ[scene], told) == READ[scene]


@pytest.mark.parametrize("level", metadata_levels().values(), ids=lambda level: level.name)
def test_the_name_of_a_metadata_version_is_its_number(level: MetadataLevel) -> None:
    """The text of the requirement has the number, whichever spelling was parsed."""
    by_name = parse(f"metadata.version >= {level.name}")
    assert by_name == parse(f"feature:metadata.version>={level.name}") == (Feature("metadata.version") >= level.name)
    assert by_name == parse(f"metadata.version>={level.level}")
    assert str(by_name) == f"metadata.version>={level.level}"


def test_only_levels_of_metadata_version_have_names() -> None:
    """The levels of other features are numbers."""
    with pytest.raises(RequirementError, match=r"did you mean 3\.3-IV3"):
        _ = Feature("metadata.version") >= "3.3-IV9"
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


def test_only_text_is_parsed() -> None:
    """The parser refuses a requirement, which needs no parsing."""
    with pytest.raises(TypeError, match="is parsed from text"):
        parse(Feature("group.version") >= 1)


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


def test_a_text_of_blanks_takes_time_in_its_length() -> None:
    """A pattern with optional blanks before a sign would try each blank anew: minutes for these texts."""
    began = time.process_time()
    for text in (f"kip848|{' ' * 1_000_000}", f"kip848{chr(0x2003) * 1_000_000}&", " " * 1_000_000):
        with pytest.raises(RequirementError):
            parse(text)
    assert time.process_time() - began < 10  # seconds of the processor: the pattern took hours
