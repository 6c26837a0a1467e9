"""What the app beside a simulated cluster requires."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Wants"]


class Wants(NamedTuple):
    """What the app's gates require: versions of an API, a level of a feature, both, and either."""

    api: str
    version: int
    feature: str
    level: int

    @property
    def requirements(self) -> tuple[str, str, str, str]:
        """The four, as texts."""
        api, level = f"{self.api}>={self.version}", f"feature:{self.feature}>={self.level}"
        return api, level, f"{api} & {level}", f"{api} | {level}"
