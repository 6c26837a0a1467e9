"""One look at a cluster: ask every broker once, and merge what they say.

The front door names these functions, and must be cheap to import: asyncio, sockets and the reading of
configurations come in when somebody asks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from featuregate.answers import from_heard
from featuregate.blocking import run_blocking
from featuregate.view import merge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from featuregate.answers import BrokerAnswer, Role
    from featuregate.config import RosterSource, Settings
    from featuregate.net.survey import Roster
    from featuregate.view import View

__all__ = ["Asked", "adiscover", "ask", "discover"]

DISCOVER_SECONDS = 15.0


class Asked(NamedTuple):
    """What every broker said, and the roster by which they were found."""

    roster: Roster
    answers: tuple[BrokerAnswer, ...]
    at: float
    """Seconds since the Unix epoch."""

    def view(self, role: Role, *, previous: View | None = None, unlisted: tuple[BrokerAnswer, ...] = ()) -> View:
        """Merge it, with the view before and with brokers that are known but not listed."""
        return merge(
            (*self.answers, *unlisted),
            cluster_id=self.roster.cluster_id,
            controller_id=self.roster.controller_id,
            roster=self.roster.source,
            role=role,
            previous=previous,
            seen_at=self.at,
        )


async def ask(settings: Settings, known: Roster | None = None) -> Asked:
    """Ask every broker once.

    Parameters
    ----------
    settings
        Where and how to ask.
    known
        The roster of the last time: brokers are looked for there first, and at the bootstrap list only when all of
        them are gone.

    Raises
    ------
    DiscoveryError
        Nobody answered; the error carries the cause of each.
    """
    from featuregate.net.survey import survey  # noqa: PLC0415 - see above

    found = await survey(settings, known)
    at = datetime.now(UTC).timestamp()
    return Asked(found.roster, tuple(from_heard(heard, answered_at=at) for heard in found.heard), at)


async def adiscover(
    config: Mapping[str, Any] | str | Path,
    *,
    timeout: float = DISCOVER_SECONDS,  # noqa: ASYNC109 - the same door as discover(): the survey bounds itself
    roster: RosterSource = "ask",
) -> View:
    """Ask every broker once and return the merged view; :func:`discover` for coroutines."""
    from featuregate.config import Settings  # noqa: PLC0415 - see above

    settings = Settings.parse(config, roster=roster, total_timeout=timeout)
    asked = await ask(settings)
    return asked.view(settings.role)


def discover(
    config: Mapping[str, Any] | str | Path, *, timeout: float = DISCOVER_SECONDS, roster: RosterSource = "ask"
) -> View:
    """Ask every broker of a cluster once, and return the merged view.

    Works where an event loop already runs too, as in a notebook; there it blocks that loop while it asks.

    Parameters
    ----------
    config
        What :class:`featuregate.Discoverer` takes: the app's confluent-kafka dict, other spellings, a ``host:port``
        list or a path.
    timeout
        Seconds for all of it, at the most.
    roster
        ``"listed"``: the bootstrap list names every broker, so nobody is asked for more of them.

    Raises
    ------
    ConfigError
        A property that is used here has a value that cannot be used.
    DiscoveryError
        Nobody answered; the error carries the cause of each.
    """
    return run_blocking(lambda: adiscover(config, timeout=timeout, roster=roster))
