"""Kafka's error codes: the name of each, and whether the same request may succeed when it is sent again.

Source: ``Errors.java`` of Apache Kafka 4.4.0 (``org.apache.kafka.common.protocol.Errors``), printed by the class itself
from the released kafka-clients jar; retriable means that its exception is a ``RetriableException``. Codes never change
their meaning; 4.3.1 has the same table up to 133. An unknown code of a newer broker keeps its number:
``UNKNOWN_CODE_999``.
"""

from typing import Final, NamedTuple

from featuregate.errors import BrokerError
from featuregate.printable import without_dump

NONE: Final = 0
UNSUPPORTED_VERSION: Final = 35
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
REBOOTSTRAP_REQUIRED: Final = 129


class KafkaError(NamedTuple):
    """One row of Kafka's table."""

    code: int
    name: str
    retriable: bool


_YES, _NO = True, False

# fmt: off
_TABLE: tuple[KafkaError, ...] = tuple(map(KafkaError._make, (
    (-1, "UNKNOWN_SERVER_ERROR", _NO),
    (0, "NONE", _NO),
    (1, "OFFSET_OUT_OF_RANGE", _NO),
    (2, "CORRUPT_MESSAGE", _YES),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", _YES),
    (4, "INVALID_FETCH_SIZE", _NO),
    (5, "LEADER_NOT_AVAILABLE", _YES),
    (6, "NOT_LEADER_OR_FOLLOWER", _YES),
    (7, "REQUEST_TIMED_OUT", _YES),
    (8, "BROKER_NOT_AVAILABLE", _NO),
    (9, "REPLICA_NOT_AVAILABLE", _YES),
    (10, "MESSAGE_TOO_LARGE", _NO),
    (11, "STALE_CONTROLLER_EPOCH", _NO),
    (12, "OFFSET_METADATA_TOO_LARGE", _NO),
    (13, "NETWORK_EXCEPTION", _YES),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", _YES),
    (15, "COORDINATOR_NOT_AVAILABLE", _YES),
    (16, "NOT_COORDINATOR", _YES),
    (17, "INVALID_TOPIC_EXCEPTION", _NO),
    (18, "RECORD_LIST_TOO_LARGE", _NO),
    (19, "NOT_ENOUGH_REPLICAS", _YES),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", _YES),
    (21, "INVALID_REQUIRED_ACKS", _NO),
    (22, "ILLEGAL_GENERATION", _NO),
    (23, "INCONSISTENT_GROUP_PROTOCOL", _NO),
    (24, "INVALID_GROUP_ID", _NO),
    (25, "UNKNOWN_MEMBER_ID", _NO),
    (26, "INVALID_SESSION_TIMEOUT", _NO),
    (27, "REBALANCE_IN_PROGRESS", _NO),
    (28, "INVALID_COMMIT_OFFSET_SIZE", _NO),
    (29, "TOPIC_AUTHORIZATION_FAILED", _NO),
    (30, "GROUP_AUTHORIZATION_FAILED", _NO),
    (31, "CLUSTER_AUTHORIZATION_FAILED", _NO),
    (32, "INVALID_TIMESTAMP", _NO),
    (33, "UNSUPPORTED_SASL_MECHANISM", _NO),
    (34, "ILLEGAL_SASL_STATE", _NO),
    (35, "UNSUPPORTED_VERSION", _NO),
    (36, "TOPIC_ALREADY_EXISTS", _NO),
    (37, "INVALID_PARTITIONS", _NO),
    (38, "INVALID_REPLICATION_FACTOR", _NO),
    (39, "INVALID_REPLICA_ASSIGNMENT", _NO),
    (40, "INVALID_CONFIG", _NO),
    (41, "NOT_CONTROLLER", _YES),
    (42, "INVALID_REQUEST", _NO),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", _NO),
    (44, "POLICY_VIOLATION", _NO),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", _NO),
    (46, "DUPLICATE_SEQUENCE_NUMBER", _NO),
    (47, "INVALID_PRODUCER_EPOCH", _NO),
    (48, "INVALID_TXN_STATE", _NO),
    (49, "INVALID_PRODUCER_ID_MAPPING", _NO),
    (50, "INVALID_TRANSACTION_TIMEOUT", _NO),
    (51, "CONCURRENT_TRANSACTIONS", _YES),
    (52, "TRANSACTION_COORDINATOR_FENCED", _NO),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _NO),
    (54, "SECURITY_DISABLED", _NO),
    (55, "OPERATION_NOT_ATTEMPTED", _NO),
    (56, "KAFKA_STORAGE_ERROR", _YES),
    (57, "LOG_DIR_NOT_FOUND", _NO),
    (58, "SASL_AUTHENTICATION_FAILED", _NO),
    (59, "UNKNOWN_PRODUCER_ID", _NO),
    (60, "REASSIGNMENT_IN_PROGRESS", _NO),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", _NO),
    (62, "DELEGATION_TOKEN_NOT_FOUND", _NO),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", _NO),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", _NO),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", _NO),
    (66, "DELEGATION_TOKEN_EXPIRED", _NO),
    (67, "INVALID_PRINCIPAL_TYPE", _NO),
    (68, "NON_EMPTY_GROUP", _NO),
    (69, "GROUP_ID_NOT_FOUND", _NO),
    (70, "FETCH_SESSION_ID_NOT_FOUND", _YES),
    (71, "INVALID_FETCH_SESSION_EPOCH", _YES),
    (72, "LISTENER_NOT_FOUND", _YES),
    (73, "TOPIC_DELETION_DISABLED", _NO),
    (74, "FENCED_LEADER_EPOCH", _YES),
    (75, "UNKNOWN_LEADER_EPOCH", _YES),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", _NO),
    (77, "STALE_BROKER_EPOCH", _NO),
    (78, "OFFSET_NOT_AVAILABLE", _YES),
    (79, "MEMBER_ID_REQUIRED", _NO),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", _YES),
    (81, "GROUP_MAX_SIZE_REACHED", _NO),
    (82, "FENCED_INSTANCE_ID", _NO),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", _YES),
    (84, "ELECTION_NOT_NEEDED", _YES),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", _NO),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", _NO),
    (87, "INVALID_RECORD", _NO),
    (88, "UNSTABLE_OFFSET_COMMIT", _YES),
    (89, "THROTTLING_QUOTA_EXCEEDED", _YES),
    (90, "PRODUCER_FENCED", _NO),
    (91, "RESOURCE_NOT_FOUND", _NO),
    (92, "DUPLICATE_RESOURCE", _NO),
    (93, "UNACCEPTABLE_CREDENTIAL", _NO),
    (94, "INCONSISTENT_VOTER_SET", _NO),
    (95, "INVALID_UPDATE_VERSION", _NO),
    (96, "FEATURE_UPDATE_FAILED", _NO),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", _NO),
    (98, "SNAPSHOT_NOT_FOUND", _NO),
    (99, "POSITION_OUT_OF_RANGE", _NO),
    (100, "UNKNOWN_TOPIC_ID", _YES),
    (101, "DUPLICATE_BROKER_REGISTRATION", _NO),
    (102, "BROKER_ID_NOT_REGISTERED", _NO),
    (103, "INCONSISTENT_TOPIC_ID", _YES),
    (104, "INCONSISTENT_CLUSTER_ID", _NO),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", _NO),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", _YES),
    (107, "INELIGIBLE_REPLICA", _NO),
    (108, "NEW_LEADER_ELECTED", _NO),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", _NO),
    (110, "FENCED_MEMBER_EPOCH", _NO),
    (111, "UNRELEASED_INSTANCE_ID", _NO),
    (112, "UNSUPPORTED_ASSIGNOR", _NO),
    (113, "STALE_MEMBER_EPOCH", _NO),
    (114, "MISMATCHED_ENDPOINT_TYPE", _NO),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", _NO),
    (116, "UNKNOWN_CONTROLLER_ID", _NO),
    (117, "UNKNOWN_SUBSCRIPTION_ID", _NO),
    (118, "TELEMETRY_TOO_LARGE", _NO),
    (119, "INVALID_REGISTRATION", _NO),
    (120, "TRANSACTION_ABORTABLE", _NO),
    (121, "INVALID_RECORD_STATE", _NO),
    (122, "SHARE_SESSION_NOT_FOUND", _YES),
    (123, "INVALID_SHARE_SESSION_EPOCH", _YES),
    (124, "FENCED_STATE_EPOCH", _NO),
    (125, "INVALID_VOTER_KEY", _NO),
    (126, "DUPLICATE_VOTER", _NO),
    (127, "VOTER_NOT_FOUND", _NO),
    (128, "INVALID_REGULAR_EXPRESSION", _NO),
    (129, "REBOOTSTRAP_REQUIRED", _NO),
    (130, "STREAMS_INVALID_TOPOLOGY", _NO),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", _NO),
    (132, "STREAMS_TOPOLOGY_FENCED", _NO),
    (133, "SHARE_SESSION_LIMIT_REACHED", _YES),
    (134, "GROUP_DELETION_FAILED", _NO),
    (135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", _NO),
    (136, "CONTROLLER_ID_NOT_REGISTERED", _NO),
)))
# fmt: on

_MAY_BE_DONE: Final = frozenset({-1, 7, 13, NOT_CONTROLLER, 96})

KAFKA_ERRORS: Final[dict[int, KafkaError]] = {error.code: error for error in _TABLE}


def kafka_error(code: int) -> KafkaError:
    """Return the row of a code; an unknown code is not retriable and has its number in its name."""
    return KAFKA_ERRORS.get(code) or KafkaError(code, f"UNKNOWN_CODE_{code}", retriable=False)


def may_be_done(code: int) -> bool:
    """Return whether a change may be applied, now or later, although a controller answered with this code.

    A KRaft controller that has written a record and waits for the quorum answers REQUEST_TIMED_OUT and
    UNKNOWN_SERVER_ERROR, a broker that forwards answers NETWORK_EXCEPTION. A controller that loses its leadership
    answers NOT_CONTROLLER to each pending write; its successor may still commit it (``QuorumController.renounce``).
    FEATURE_UPDATE_FAILED comes from a controller that did not read back what it had written to ZooKeeper
    (``KafkaController.processFeatureUpdates``). An unknown code may mean either.
    """
    return code in _MAY_BE_DONE or code not in KAFKA_ERRORS


def broker_error(code: int, message: str | None = None) -> BrokerError:
    """Make the error of a code, with the broker's message or advice."""
    error = kafka_error(code)
    return BrokerError(error.code, error.name, error.retriable, without_dump(message or ""))
