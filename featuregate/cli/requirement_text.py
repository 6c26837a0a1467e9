"""From the text of the command line to a requirement: the name of a preset, or a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.requirements import parse, presets

if TYPE_CHECKING:
    from featuregate.requirements import Requirement

__all__ = ["requirement_of"]


def requirement_of(text: str) -> Requirement:
    """Return the preset with this name, or parse the text.

    Raises
    ------
    RequirementError
        The text is neither; the error names the position where parsing failed.
    """
    preset = presets.by_name(text.strip())
    return parse(text) if preset is None else preset
