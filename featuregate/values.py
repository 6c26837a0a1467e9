"""Frozen values with named fields: `dataclass`, `field`, `fields` and `replace`, as `dataclasses` has them.

A command waits for the classes of its values. `dataclasses` imports inspect, and writes and compiles the methods of
each class, which took a quarter of the start of ``describe``. Here all classes share their methods, and take from
`dataclasses` what only introspection needs when it is asked for: `dataclasses.fields`, `dataclasses.replace`,
`dataclasses.asdict` and `inspect.signature` work as with any dataclass. Every value is frozen and has slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

T = TypeVar("T")
_NOTHING: Final[Any] = object()
_set: Final = object.__setattr__


class _Field:
    """A field of a value: its name, its annotation, and its default."""

    name = ""
    type: Any = None

    def __init__(
        self, default: Any = _NOTHING, factory: Callable[[], Any] | None = None, *, shown: bool = True
    ) -> None:
        self.default = default
        self.factory = factory
        self.repr = shown


def default_of(declared: Any) -> Any:
    """Return the default of a field; where there is none, an object that is equal to nothing else."""
    return declared.default if declared.factory is None else declared.factory()


def _field(*, default_factory: Callable[[], Any] | None = None, default: Any = _NOTHING, repr: bool = True) -> Any:  # noqa: A002 - the name of dataclasses
    """Describe a field whose default is made for each value again, or that its repr leaves out."""
    return _Field(default, default_factory, shown=repr)


def _fields(of: Any) -> tuple[_Field, ...]:
    """Return the fields of a value or its class, those of base classes first."""
    found: tuple[_Field, ...] = of.__value_fields__
    return found


def _replace(of: T, **changes: Any) -> T:
    """Return the value with other fields."""
    kept = {each.name: getattr(of, each.name) for each in _fields(of) if each.name not in changes}
    return type(of)(**kept, **changes)


def _dataclass(*, kw_only: bool = False, **_frozen_with_slots: bool) -> Callable[[type[T]], type[T]]:
    """Make a class one of frozen values. A method that the class has itself stays."""
    return partial(_made, kw_only=kw_only)


def _made(cls: type[T], *, kw_only: bool) -> type[T]:
    known = {each.name: each for base in cls.__mro__[:0:-1] for each in getattr(base, "__value_fields__", ())}
    own: dict[str, _Field] = {}
    for name, annotation in cls.__annotations__.items():
        if not _is_class_variable(annotation):
            declared = vars(cls).get(name, _NOTHING)
            own[name] = declared if isinstance(declared, _Field) else _Field(declared)
            own[name].name, own[name].type = name, annotation
    content = {name: each for name, each in vars(cls).items() if name not in {*own, "__dict__", "__weakref__"}}
    everything = tuple((known | own).values())
    names = tuple(each.name for each in everything)
    content |= {
        "__slots__": tuple(own.keys() - known.keys()),
        "__value_fields__": everything,
        "__names__": names,
        "__defaults__": {each.name: each.default for each in everything if each.default is not _NOTHING},
        "__values__": attrgetter(*names) if names else staticmethod(_nothing),
        "__kw_only__": kw_only,
        "__match_args__": () if kw_only else names,
    }
    content["__dataclass_fields__"] = _Introspected()
    if "__init__" not in content:
        content["__signature__"] = _Introspected()
    made: Any = type(cls)
    made = made(cls.__name__, cls.__bases__, _METHODS | content)
    made.__qualname__ = cls.__qualname__
    remade: type[T] = made
    return remade


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.startswith("ClassVar")
    return annotation is ClassVar or getattr(annotation, "__origin__", None) is ClassVar


def _nothing(_value: object) -> tuple[()]:
    return ()


class _Methods:
    """The methods of each class of values."""

    __value_fields__: ClassVar[tuple[_Field, ...]]
    __names__: ClassVar[tuple[str, ...]]
    __defaults__: ClassVar[dict[str, Any]]
    __values__: ClassVar[attrgetter[Any]]
    """Gets the values of all fields."""
    __kw_only__: ClassVar[bool]

    def __init__(self, *values: Any, **named: Any) -> None:
        if values:
            self.__take__(values, named)
        content = self.__defaults__ | named
        try:
            for name, value in content.items():
                _set(self, name, value)
        except AttributeError:
            raise TypeError(f"{type(self).__name__} has no {', '.join(named.keys() - set(self.__names__))}") from None
        if len(content) != len(self.__names__):
            self.__make__(content)
        if (check := getattr(self, "__post_init__", None)) is not None:
            check()

    def __take__(self, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self.__kw_only__ or len(values) > len(self.__names__):
            raise TypeError(f"{type(self).__name__} takes no {len(values)} values without names")
        for name, value in zip(self.__names__, values, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__}: two values for {name}")
            named[name] = value

    def __make__(self, content: dict[str, Any]) -> None:
        for each in self.__value_fields__:
            if each.name not in content:
                if each.factory is None:
                    raise TypeError(f"{type(self).__name__}: {each.name} is missing")
                _set(self, each.name, each.factory())

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.__values__(self) == self.__values__(other))

    def __hash__(self) -> int:
        return hash(self.__values__(self))

    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__value_fields__ if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise _frozen(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise _frozen(f"cannot delete field {name!r}")

    def __replace__(self, **changes: Any) -> Self:
        return _replace(self, **changes)

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in self.__names__]

    def __setstate__(self, state: list[Any]) -> None:
        for name, value in zip(self.__names__, state, strict=True):
            _set(self, name, value)


_METHODS: Final = {
    name: method for name, method in vars(_Methods).items() if callable(method) and name != "__annotate_func__"
}


def _frozen(problem: str) -> AttributeError:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - only a mistake needs it

    return FrozenInstanceError(problem)


class _Introspected:
    """What `dataclasses` or inspect knows of a class, made by them when it is first asked for."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, _: object, cls: Any) -> Any:
        import dataclasses  # noqa: PLC0415 - see the module
        import inspect  # noqa: PLC0415 - likewise

        described = []
        for each in _fields(cls):
            given: dict[str, Any] = {"repr": each.repr}
            if each.factory is not None:
                given["default_factory"] = each.factory
            elif each.default is not _NOTHING:
                given["default"] = each.default
            described.append((each.name, each.type, dataclasses.field(**given)))
        twin: Any = dataclasses.make_dataclass(cls.__name__, described, frozen=True, kw_only=cls.__kw_only__)
        cls.__dataclass_fields__ = twin.__dataclass_fields__
        if self._name == "__signature__":
            cls.__signature__ = inspect.signature(twin)
        return getattr(cls, self._name)


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace

    __all__ = ["dataclass", "field", "fields", "replace"]
else:
    dataclass, field, fields, replace = _dataclass, _field, _fields, _replace
