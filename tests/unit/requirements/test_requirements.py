"""Requirements in Python: how they are written, and which mistakes they refuse."""

import enum
import pickle
from collections.abc import Callable
from typing import Any, get_args

import pytest
from transcripts import retold, sections

import featuregate as fg
from featuregate.catalog import captured_releases
from featuregate.errors import RequirementError
from featuregate.requirements import (
    And,
    AnyCondition,
    AnyRequirement,
    Api,
    ApiAtLeast,
    Condition,
    Feature,
    FeatureAtLeast,
    Named,
    Or,
    Release,
    Requirement,
    conditions_in,
    configs_in,
    features_in,
    language,
    parse,
)

READ = sections(__file__, "handles.txt")
A, B, C = Feature("group.version") >= 1, Api("Fetch") >= 4, Api("Produce") >= 7


def test_combining_is_associative() -> None:
    """Equal requirements must have equal texts, because a latch is stored under the text."""
    assert (A & B) & C == A & (B & C) == And((A, B, C))
    assert (A | B) | C == A | (B | C) == Or((A, B, C))


def test_requirements_are_values() -> None:
    """Requirements can be hashed, compared and pickled."""
    assert pickle.loads(pickle.dumps(A & B)) == A & B
    assert len({A & B, A & B, B}) == 2


def test_the_parts_can_be_listed() -> None:
    """The list follows the order of the text, looks into names, and has each feature once."""
    both = (A & fg.presets.zstd) | (Feature("share.version") >= 1) | (Feature("group.version") >= 2)
    assert [str(part) for part in conditions_in(both)][1] == "Produce>=7"
    assert features_in(both) == ("group.version", "share.version")


class Negation(Requirement):
    def __str__(self) -> str:
        return "!kip447"


@pytest.mark.parametrize("strange", ["group.version>=1", Negation()], ids=["a text", "a kind of its own"])
@pytest.mark.parametrize("walk", [lambda it: list(conditions_in(it)), features_in, configs_in])
def test_a_kind_that_the_language_does_not_have_is_an_error(strange: Any, walk: Callable[[Any], object]) -> None:
    """Passed over in silence, a gate could latch what no latch may hold."""
    with pytest.raises(TypeError, match="is not a requirement"):
        walk(strange)


def test_mypy_knows_the_kinds_of_the_language() -> None:
    """A new class of conditions is one of them, so that each match has to name it."""
    classes = {found for found in vars(language).values() if isinstance(found, type) and issubclass(found, Condition)}
    assert classes - {Condition} == set(get_args(AnyCondition))
    assert {kind for kind in get_args(AnyRequirement) if not issubclass(kind, Condition)} == {And, Or, Named}


def told(text: str) -> str:
    """Return the text of what a line of Python makes, or its error."""
    try:
        return str(eval(text, globals()))
    except (TypeError, RequirementError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("scene", READ)
def test_what_python_makes_of_handles_is_as_kept(scene: str) -> None:
    """A mistake is refused where it is written; otherwise a gate would never open, without an error."""
    assert retold(READ[scene], told) == READ[scene]


def test_a_requirement_nests_as_deep_as_its_text_may() -> None:
    """The parser could not read the text of a deeper requirement back from a latch."""
    deep = A
    for level in range(51):
        deep = deep | C if level % 2 else deep & B
    assert parse(str(deep)) == deep
    with pytest.raises(RequirementError, match="nests parentheses deeper than 50"):
        deep | C


@pytest.mark.parametrize("kind", [Requirement, Condition, Named])
def test_base_classes_of_requirements_are_abstract(kind: type) -> None:
    """A base class has no text, and a view cannot decide it."""
    with pytest.raises(TypeError, match="abstract"):
        kind()


class Group(enum.StrEnum):
    VERSION = "group.version"


class Kip(str, enum.Enum):  # noqa: UP042 - its members format as their names, unlike those of a StrEnum
    GROUPS = "group.version"


class Level(int, enum.Enum):
    NEW = 1


@pytest.mark.parametrize("name", list(Group) + list(Kip))
def test_names_and_levels_may_be_members_of_enums(name: str) -> None:
    """The text has the values of the members."""
    assert str(Feature(name) >= Level.NEW) == str(FeatureAtLeast(name, Level.NEW)) == "group.version>=1"
    assert str(ApiAtLeast(Level.NEW, Level.NEW)) == "Fetch>=1"
    assert str(Api(Level.NEW).between(Level.NEW, Level.NEW)) == "Fetch in 1..1"


def test_a_release_is_two_numbers() -> None:
    """A patch release changes no API, so a release ignores the third number."""
    release = captured_releases()[-1]
    assert Release(f"{release}.1") == Release(release)
    assert str(Release(release)) == f"release>={release}"
