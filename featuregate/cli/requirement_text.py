"""From what somebody typed to a requirement: the name of a preset, or a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.requirements import parse, presets

if TYPE_CHECKING:
    from featuregate.requirements import Requirement

__all__ = ["requirement_of"]


def requirement_of(text: str) -> Requirement:
    """Return the preset of this name, or what the text says.

    Raises
    ------
    RequirementError
        It is neither; the error says where the text stops making sense.
    """
    preset = presets.by_name(text.strip())
    return parse(text) if preset is None else preset
