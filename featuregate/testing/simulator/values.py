"""Values whose representation is the code that creates them. Pure."""

from __future__ import annotations

from dataclasses import MISSING, fields


class CodeValue:
    """A frozen dataclass whose ``repr`` is code. Fields that have their default value are left out."""

    __slots__ = ()

    def __repr__(self) -> str:
        arguments = []
        positional = True
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if value == default and default is not MISSING:
                positional = False
                continue
            positional = positional and not field.kw_only
            arguments.append(repr(value) if positional else f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"
