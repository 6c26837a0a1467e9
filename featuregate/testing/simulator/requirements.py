"""What the gates of an app beside a simulated cluster require. Pure."""

from __future__ import annotations

from typing import NamedTuple


class AppRequirements(NamedTuple):
    """One API version and one feature level. The app has gates for each of them, for both, and for either."""

    api: str
    version: int
    feature: str
    level: int

    @property
    def requirements(self) -> tuple[str, str, str, str]:
        """The requirements of the four gates, as texts."""
        api, level = f"{self.api}>={self.version}", f"feature:{self.feature}>={self.level}"
        return api, level, f"{api} & {level}", f"{api} | {level}"
