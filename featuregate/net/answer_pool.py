"""The answers of one poll: those that are alike share their content, and all together have a budget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from featuregate.budgets import MOST_POLL_ELEMENTS
from featuregate.errors import RemoteWireError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from featuregate.wire.api_versions import ApiVersionsResponse


class AnswerPool:
    """Takes the answers of one poll, one after the other."""

    def __init__(self, most: int = MOST_POLL_ELEMENTS) -> None:
        self._most = self._left = most
        self._known: dict[Hashable, Mapping[Any, Any]] = {}

    def shared(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        """Return the answer with the objects of equal answers before it.

        Raises
        ------
        RemoteWireError
            The answers of this poll that are not alike have more API ranges and features than its budget.
        """
        api_ranges, supported, finalized = (
            self._known.get(key := frozenset(content.items())) or self._new(key, content)
            for content in (response.api_ranges, response.supported, response.finalized)
        )
        return replace(response, api_ranges=api_ranges, supported=supported, finalized=finalized)

    def _new(self, key: Hashable, content: Mapping[Any, Any]) -> Mapping[Any, Any]:
        if len(content) > self._left:
            problem = f"more than the {self._most} API ranges and features that are believed of one poll"
            raise RemoteWireError(problem, "ApiVersions response", 0)
        self._left -= len(content)
        self._known[key] = content
        return content
