"""Values that are made without `dataclasses`, and are dataclasses for whoever asks."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from featuregate.values import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True)
class Point:
    """A value with positions."""

    SIDES: ClassVar[int] = 2

    x: int
    y: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", abs(self.x))


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A value with names."""

    name: str
    secret: str = field(default="", repr=False)
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Own:
    """A value that takes something else than its fields."""

    total: int

    def __init__(self, *parts: int) -> None:
        object.__setattr__(self, "total", sum(parts))


@dataclass(frozen=True, slots=True)
class Deep(Point):
    """A value with the fields of another."""

    z: int = 0


def test_a_value_has_what_its_class_says() -> None:
    """Positions, names, defaults, and what `__post_init__` makes of them; a class variable is no field."""
    assert (Point(-1).x, Point(1, 2).y, Point(x=1, y=3).y) == (1, 2, 3)
    assert Named(name="a").tags == {}
    assert Named(name="a").tags is not Named(name="a").tags
    assert [each.name for each in fields(Deep(1, 2, 3))] == ["x", "y", "z"]
    assert Point.SIDES == 2


WRONG: tuple[Callable[[], object], ...] = (
    Point,
    lambda: Point(1, 2, 3),  # type: ignore[call-arg]
    lambda: Point(1, x=1),  # type: ignore[misc]
    lambda: Point(1, z=2),  # type: ignore[call-arg]
    lambda: Named("a"),  # type: ignore[misc]
    lambda: Named(secret="a"),  # type: ignore[call-arg]
    lambda: Named(name="a", other="b"),  # type: ignore[call-arg]
)


@pytest.mark.parametrize("make", WRONG)
def test_wrong_parameters_are_a_type_error(make: Callable[[], object]) -> None:
    """Too few, too many, twice, unknown, or without the name that they need."""
    with pytest.raises(TypeError):
        make()


def test_values_are_compared_by_content_and_class() -> None:
    """Equal values have equal hashes."""
    assert Point(1, 2) == Point(1, 2)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Deep(1, 2)


def test_values_are_frozen_and_have_no_dict() -> None:
    """Neither changed nor extended."""
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_values_travel_and_are_replaced() -> None:
    """Pickled, copied, and with other fields."""
    assert pickle.loads(pickle.dumps(Deep(1, 2, 3))) == Deep(1, 2, 3)
    assert copy.deepcopy(Named(name="a", tags={"b": 1})) == Named(name="a", tags={"b": 1})
    assert replace(Point(1, 2), y=-3) == Point(1, -3)
    if sys.version_info >= (3, 13):
        assert copy.replace(Point(1, 2), y=-3) == Point(1, -3)


def test_a_repr_shows_no_field_that_it_leaves_out() -> None:
    """As with a password."""
    assert repr(Named(name="a", secret="b")) == "Named(name='a', tags={})"


def test_values_match_by_position() -> None:
    """Where their fields have positions."""
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_a_value_is_a_dataclass_for_whoever_asks() -> None:
    """An app may use `dataclasses`, and the reference shows the parameters."""
    assert dataclasses.is_dataclass(Point)
    assert dataclasses.asdict(Deep(1, 2, 3)) == {"x": 1, "y": 2, "z": 3}
    assert dataclasses.replace(Named(name="a"), name="b") == Named(name="b")
    assert list(inspect.signature(Point).parameters) == ["x", "y"]
    assert list(inspect.signature(Own).parameters) == ["parts"]
    assert dataclasses.asdict(Own(1, 2)) == {"total": 3}
    assert inspect.signature(Named).parameters["name"].kind is inspect.Parameter.KEYWORD_ONLY
