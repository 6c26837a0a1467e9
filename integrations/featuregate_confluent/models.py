"""The three models in which an app that consumes, transforms and produces can be exactly-once. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from featuregate import group_marks
from featuregate.errors import ConfigError


class Model(IntEnum):
    """A model, in the order of the migration. Neighbours may share a group; legacy and v2 must not."""

    LEGACY = 1
    """One transactional producer for each input partition; brokers are too old to check the group's generation."""
    BRIDGE = 2
    """The same producers, and every broker checks the group's generation."""
    V2 = 3
    """One transactional producer for each process (KIP-447)."""

    @property
    def label(self) -> str:
        """The name that people, logs and committed offsets see."""
        return self.name.lower()

    @property
    def per_partition(self) -> bool:
        """Whether each input partition has a producer of its own."""
        return self is not Model.V2


PinnedModel = Model | None
"""What the operator asked for: a pinned model, or None for the highest that cluster and group allow."""

BY_LABEL: Final = {model.label: model for model in Model}


def parse_model(text: str | Model | None) -> PinnedModel:
    """Read ``"auto"``, ``"legacy"``, ``"bridge"`` or ``"v2"``. Raises ConfigError (it is none of these)."""
    if text is None or text == "auto":
        return None
    if isinstance(text, Model):
        return text
    try:
        return BY_LABEL[text]
    except (KeyError, TypeError):
        raise ConfigError("model", f"must be auto, {', '.join(BY_LABEL)}, not {text!r}") from None


def promised_by(name: str) -> Model | None:
    """Return the least model that an id of a member promises; None: it has no tag of featuregate."""
    return BY_LABEL.get(group_marks.read_tag(name) or "")


def tagged(name: str, model: Model) -> str:
    """Return the id with the tag of a model at its end, in place of any other tag."""
    return group_marks.tagged(name, model.label)
