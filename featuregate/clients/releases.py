"""Which releases of Kafka the brokers of a view run, by the APIs that they serve. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.catalog.releases import captured_as, captured_releases
from featuregate.errors import ConfigError
from featuregate.view.releases import releases_of_brokers

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View


def releases_of(view_or_release: View | str) -> tuple[str, ...]:
    """Return the release, or those of the brokers of a view, oldest first.

    Raises `ConfigError`: the release is unknown, or no broker of the view answered.
    """
    if isinstance(view_or_release, str):
        return (_known(view_or_release),)
    if not view_or_release.answering:
        raise ConfigError("view", "no broker answered, so that its release is not known")
    return releases_of_brokers(view_or_release)


def _known(release: str) -> str:
    parts = release.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts) or captured_as(release) is None:
        known = captured_releases()
        raise ConfigError("release", f"{release!r} is not a known release of Kafka: {known[0]} to {known[-1]}")
    return release
