"""Requirements in Python: how they are written, and which mistakes they refuse."""

import enum
import operator
import pickle
from collections.abc import Callable
from typing import Any, get_args

import pytest

import featuregate as fg
from featuregate.catalog import captured_releases
from featuregate.errors import RequirementError
from featuregate.requirements import (
    And,
    AnyCondition,
    AnyRequirement,
    Api,
    ApiAtLeast,
    ApiBetween,
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

A, B, C = Feature("group.version") >= 1, Api("Fetch") >= 4, Api("Produce") >= 7


def test_a_feature_is_compared_with_a_level() -> None:
    """The handle may stand on either side of the comparison."""
    assert (Feature("group.version") >= 1) == FeatureAtLeast("group.version", 1)
    assert operator.le(1, Feature("group.version")) == FeatureAtLeast("group.version", 1)


def test_an_api_is_compared_with_a_version() -> None:
    """A handle takes the name of an API or its key."""
    assert (Api("TxnOffsetCommit") >= 3) == (Api(28) >= 3) == ApiAtLeast(28, 3)


def test_an_api_may_be_asked_for_a_range() -> None:
    """A client may need one version of a range that it speaks."""
    assert Api("Fetch").between(4, 11) == ApiBetween(1, 4, 11)


def test_an_api_may_be_newer_than_the_table() -> None:
    """A handle takes the key of an API that has no name here."""
    assert str(Api(999) >= 0) == "api:999>=0"


def test_the_name_that_an_older_release_used_will_do() -> None:
    """Kafka 4.1 renamed the API with key 74."""
    assert str(Api("ListClientMetricsResources") >= 0) == "ListConfigResources>=0"


def test_requirements_combine() -> None:
    """The text has parentheses where & and | are mixed."""
    assert str(A & (B | C)) == "group.version>=1 & (Fetch>=4 | Produce>=7)"
    assert str((A & B) | C) == "(group.version>=1 & Fetch>=4) | Produce>=7"


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


@pytest.mark.parametrize(
    ("mistake", "advice"),
    [
        (lambda: A and B, r"combine requirements with & and \|"),
        (lambda: A or B, r"combine requirements with & and \|"),
        (lambda: not A, r"combine requirements with & and \|"),
        (lambda: 1 <= Feature("group.version") <= 3, r"combine requirements with & and \|"),
        (lambda: bool(Feature("group.version")), r"combine requirements with & and \|"),
        (lambda: Feature("group.version") >= 1 & Feature("share.version") >= 1, "put parentheses around"),
        (lambda: Feature("group.version") >= 1 | Api("Fetch") >= 1, "put parentheses around"),
        (lambda: Feature("group.version") & A, "put parentheses around"),
        (lambda: A & Feature("group.version"), "put parentheses around"),
        (lambda: A | Api("Fetch"), "put parentheses around"),
        (lambda: Feature("group.version") == 1, "write >="),
        (lambda: Api("Fetch") != 1, "write >="),
    ],
)
def test_what_python_would_read_in_another_way_is_refused(mistake, advice: str) -> None:
    """``and`` keeps one of two requirements, ``&`` binds tighter than ``>=``, and ``==`` would always be False."""
    with pytest.raises(TypeError, match=advice):
        mistake()


@pytest.mark.parametrize("level", ["1", 1.0, None, True])
def test_levels_are_ints(level) -> None:
    """True is an int in Python, but not a level."""
    with pytest.raises(TypeError, match="a finalized level is an int, not"):
        Feature("group.version") >= level  # noqa: B015 - it raises


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        (lambda: Feature("group.version") >= 0, "a finalized level is from 1 to 32767 here"),
        (lambda: Feature("group.version") >= 32768, "a finalized level is from 1 to 32767 here"),
        (lambda: Api("Fetch") >= -1, "an API version is from 0 to 32767 here"),
        (lambda: Api("Fetch").between(4, 3), "the highest API version is from 4 to 32767 here"),
        (lambda: Api(-1) >= 0, "an API key is from 0 to 32767 here"),
        (lambda: Feature(""), "a feature's name has"),
        (lambda: Feature("group version"), "a feature's name has"),
        (lambda: Feature("a>=1"), "a feature's name has"),
        (lambda: Feature("a!b"), "a feature's name has"),
        (lambda: Feature("a\0b"), "a feature's name has"),
        (lambda: Feature("\ud800"), "a feature's name has"),
        (lambda: Api("TxnOfsetCommit"), "did you mean TxnOffsetCommit"),
        (lambda: Release("0.8"), "no broker of release '0.8' has been captured"),
    ],
)
def test_an_invalid_handle_is_refused_where_it_is_written(mistake, complaint: str) -> None:
    """Otherwise the gate would never open, without an error."""
    with pytest.raises(RequirementError, match=complaint):
        mistake()


@pytest.mark.parametrize(
    "mistake", [lambda: Feature(5), lambda: Release(3.9), lambda: And((A, "b")), lambda: Or((A, None))]
)
def test_other_types_are_refused(mistake) -> None:
    """A wrong type raises TypeError, as in Python."""
    with pytest.raises(TypeError):
        mistake()


@pytest.mark.parametrize("kind", [And, Or])
def test_a_combination_has_two_parts_or_more(kind: type[And | Or]) -> None:
    """An empty one would always or never hold, and the text of a single part has no combination."""
    with pytest.raises(RequirementError, match=f"{kind.__name__} combines at least two requirements: give at least"):
        kind(())
    with pytest.raises(RequirementError, match="use its one part instead, at position 0 of "):
        kind((A,))
    assert kind((kind((A, B)),)) == kind((A, B))


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


def test_handles_have_a_readable_repr() -> None:
    """A notebook prints the repr of a handle."""
    assert (repr(Feature("group.version")), repr(Api(1))) == ("Feature('group.version')", "Api('Fetch')")


def test_a_release_is_two_numbers() -> None:
    """A patch release changes no API, so a release ignores the third number."""
    release = captured_releases()[-1]
    assert Release(f"{release}.1") == Release(release)
    assert str(Release(release)) == f"release>={release}"
