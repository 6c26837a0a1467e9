"""ListGroups (key 16) and ListTransactions (key 66, KIP-664): what a broker coordinates, as far as a client may see it.

A broker lists the groups and transactional ids that it coordinates itself, and leaves out those that the client has no
right to DESCRIBE. Groups have a state from v4 (KIP-518) and a type from v5 on (KIP-848). Source:
``ListGroupsRequest.json``, ``ListTransactionsRequest.json`` and their responses of Apache Kafka 4.4.0.
"""

from typing import Annotated

from featuregate.wire.message import Request, Response
from featuregate.wire.schema import Flexible, Int16, Int32, Int64, Versions, structure


@structure
class ListedGroup(Flexible):
    """One group."""

    group_id: str
    protocol_type: str
    group_state: Annotated[str, Versions(4)] = ""
    """``Stable``, ``Empty`` and others."""
    group_type: Annotated[str, Versions(5)] = ""
    """``classic``, ``consumer``, ``share`` or ``streams``."""


@structure
class ListGroupsResponse(Response, api=(16, "ListGroups"), versions=(0, 5), flexible_from=3):
    """The groups that this broker coordinates."""

    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()


@structure
class ListGroupsRequest(Request[ListGroupsResponse]):
    """Request the groups, of these states and types where any are named."""

    states_filter: Annotated[tuple[str, ...], Versions(4, ignorable=False)] = ()
    types_filter: Annotated[tuple[str, ...], Versions(5, ignorable=False)] = ()


@structure
class ListedTransaction(Flexible):
    """One transactional id."""

    transactional_id: str
    producer_id: Int64
    transaction_state: str
    """``Ongoing``, ``Empty``, ``CompleteCommit`` and others."""


@structure
class ListTransactionsResponse(Response, api=(66, "ListTransactions"), versions=(0, 1), flexible_from=0):
    """The transactional ids that this broker coordinates."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()


@structure
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """Request the transactional ids, of these states and producers where any are named."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, Versions(1)] = -1
