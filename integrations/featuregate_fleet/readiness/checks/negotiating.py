"""Which clients ask for API versions before they choose one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from featuregate_fleet.readiness.api_ranges import API_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from featuregate_fleet.readiness.evidence import Usage


@dataclass(frozen=True, slots=True)
class Negotiating:
    """The clients that negotiate, as far as their requests tell them apart."""

    software: frozenset[tuple[str, str, str]]
    """By principal, client id and software: apps that share a client id are told apart by their software."""
    names: frozenset[tuple[str, str]]
    """By principal and client id alone, for logs that never name the software."""

    @classmethod
    def of(cls, completed: Iterable[Usage]) -> Self:
        """Return the clients of which a request shows that they negotiate.

        Clients without any name may be several: that one of them asks says nothing of the others.
        """
        shown = [
            (usage.principal or "", usage.client_id or "", usage.software)
            for usage in completed
            if usage.software_name or ((usage.principal or usage.client_id) and usage.api_key == API_VERSIONS)
        ]
        named = frozenset((principal, client_id) for principal, client_id, _ in shown if principal or client_id)
        return cls(frozenset(shown), named)

    def does(self, usage: Usage) -> bool:
        """Return whether the client of a request negotiates."""
        names = usage.principal or "", usage.client_id or ""
        return names in self.names if usage.text_log else (*names, usage.software) in self.software
