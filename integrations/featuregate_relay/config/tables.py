"""Tables of a TOML file: the types of their values, and what a mistake is. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo

from featuregate.errors import ConfigError
from featuregate.files import local_path

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


def _path(text: object, info: ValidationInfo) -> Path:
    """Return a path, which is relative to the folder of the file that names it."""
    if not isinstance(text, str):
        raise ValueError("must be the path of a file")  # noqa: TRY004 - pydantic reports ValueErrors
    try:
        return Path((info.context or {}).get("folder", "."), local_path("", text))
    except ConfigError as error:
        raise ValueError(error.problem) from None


FilePath = Annotated[Path, PlainValidator(_path)]
"""A path, relative to the file that names it."""
Name = Annotated[str, Field(pattern=_NAME)]
"""A part of a path of HTTP."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of the file. Keys are spelled with hyphens, as options are; a key that is not known is a mistake."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,  # it may be a password
    )


def line_of(mistake: ErrorDetails) -> str:
    """Return a mistake in one line. Its input is left out."""
    place = ".".join(str(part) for part in mistake["loc"] if part != "[key]")
    text = mistake["msg"].removeprefix("Value error, ")
    said = {
        "extra_forbidden": "there is no such key",
        "missing": "is missing",
        "string_pattern_mismatch": "must be made of letters, digits, '.', '_' and '-'",
        "too_short": "must not be empty",
    }.get(mistake["type"], text[:1].lower() + text[1:])
    return f"{place}: {said}"
