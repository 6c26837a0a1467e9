"""Which members a group has, for a gate of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate_confluent.client.group import GroupReader

if TYPE_CHECKING:
    from collections.abc import Mapping


class GroupMembers:
    """Asks brokers for the member ids of a consumer group: what :class:`~featuregate_confluent.GroupGate` takes.

    Parameters
    ----------
    config
        The consumer's properties; only those about the connection are used.
    group
        The ``group.id``.
    timeout
        Seconds for one answer, at the most.

    Notes
    -----
    Needs the right DESCRIBE on the group, which READ implies.
    """

    def __init__(self, config: Mapping[str, Any], group: str, *, timeout: float = 10.0) -> None:
        self._reader = GroupReader(config, group)
        self._timeout = timeout

    def __call__(self) -> frozenset[str]:
        """Return the ids of the live members. Raises `GroupUnreadable`."""
        return frozenset(member.member_id for member in self._reader.members(self._timeout).members)

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()
