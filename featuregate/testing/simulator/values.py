"""Values that print as the code which makes them."""

from __future__ import annotations

from dataclasses import MISSING, fields

__all__ = ["Value"]


class Value:
    """A frozen dataclass whose text is code. What has its default is left out."""

    __slots__ = ()

    def __repr__(self) -> str:
        said = []
        positional = True
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if value == default and default is not MISSING:
                positional = False
                continue
            positional = positional and not field.kw_only
            said.append(repr(value) if positional else f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(said)})"
