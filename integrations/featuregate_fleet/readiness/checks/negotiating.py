"""Which clients ask for API versions before they choose one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from featuregate_fleet.readiness.api_ranges import API_VERSIONS

if TYPE_CHECKING:
    from featuregate_fleet.readiness.evidence import Usage


@dataclass(frozen=True, slots=True)
class Negotiating:
    """The clients that negotiate, as far as their requests tell them apart."""

    apps: frozenset[tuple[str, str, str, str | None]]
    """Usage by principal, client id, software and host, which tell apps apart that share a client id."""
    software: frozenset[tuple[str, str, str]]
    """The same without the host."""
    names: frozenset[tuple[str, str]]
    """By principal and client id alone: for forwarded requests, whose lines have the connection of a broker."""

    @classmethod
    def of(cls, completed: Iterable[Usage]) -> Self:
        """Return the clients of which a request shows that they negotiate.

        Clients without any name may be several: that one of them asks says nothing of the others.
        """
        asking = [
            usage
            for usage in completed
            if usage.software_name or ((usage.principal or usage.client_id) and usage.api_key == API_VERSIONS)
        ]
        apps = [(*_names(usage), usage.software, usage.client_host) for usage in asking]
        names = [names for usage in asking if any(names := _names(usage))]
        return cls(frozenset(apps), frozenset(app[:3] for app in apps), frozenset(names))

    def does(self, usage: Usage) -> bool:
        """Return whether the client of a request negotiates."""
        names = _names(usage)
        if usage.forwarded:
            return names in self.names
        app = (*names, usage.software)
        if usage.client_host is None:
            return app in self.software
        return (*app, usage.client_host) in self.apps or (*app, None) in self.apps


def _names(usage: Usage) -> tuple[str, str]:
    return usage.principal or "", usage.client_id or ""
