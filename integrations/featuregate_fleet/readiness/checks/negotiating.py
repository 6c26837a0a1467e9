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
    """Of requests in JSON, by principal, client id and software, which tells apps apart that share a client id."""
    names: frozenset[tuple[str, str]]
    """By principal and client id alone, for logs that never name the software."""

    @classmethod
    def of(cls, completed: Iterable[Usage]) -> Self:
        """Return the clients of which a request shows that they negotiate.

        Clients without any name may be several: that one of them asks says nothing of the others. A client may have
        written a line of a text log for another one: it says nothing of requests in JSON.
        """
        asking = [
            usage
            for usage in completed
            if usage.software_name or ((usage.principal or usage.client_id) and usage.api_key == API_VERSIONS)
        ]
        shown = [(*_names(usage), usage.software) for usage in asking if not usage.text_log]
        return cls(frozenset(shown), frozenset(names for usage in asking if any(names := _names(usage))))

    def does(self, usage: Usage) -> bool:
        """Return whether the client of a request negotiates."""
        names = _names(usage)
        return names in self.names if usage.text_log else (*names, usage.software) in self.software


def _names(usage: Usage) -> tuple[str, str]:
    return usage.principal or "", usage.client_id or ""
