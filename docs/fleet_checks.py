"""All checks of a move, with what each says: a page shows them as its table."""

from __future__ import annotations

from typing import Final, NamedTuple


class Check(NamedTuple):
    """What one check says of a move."""

    name: str
    blocks: str
    """What blocks the move; empty where the check never blocks."""
    otherwise: str
    """What is a warning, unknown or stale."""


CHECKS: Final = (
    Check(
        "api-versions",
        blocks=(
            "a client uses a version of an API that the brokers do not serve after the move, and has no other one"
        ),
        otherwise=(
            "warning: the version is newer than those, and the client negotiates. Unknown: brokers of today "
            "serve no newer version, so that the client may have one"
        ),
    ),
    Check(
        "refused-requests",
        blocks="a broker has refused a version that is older than those that are served after the move",
        otherwise="warning: it has refused a newer one",
    ),
    Check(
        "cut-requests",
        blocks="",
        otherwise=(
            "warning: some lines of a client were cut, and only their heads are known. Unknown: too many of them were"
        ),
    ),
    Check(
        "newer-brokers",
        blocks="",
        otherwise=(
            "unknown: the brokers are newer than the target, so that levels and records decide, too: ask "
            "`--downgrade-to`"
        ),
    ),
    Check(
        "coverage",
        blocks="",
        otherwise=(
            "unknown: a broker has no request log at DEBUG, or one of too few hours, or requests as text. Stale: its "
            "last line is too old"
        ),
    ),
    Check(
        "quarantine",
        blocks="",
        otherwise="warning, or unknown where they are many: lines could not be read",
    ),
    Check(
        "client-software",
        blocks=(
            "software that a client reports (KIP-511) [was measured](../reference/clients.md), and cannot do "
            "on the target what the client does, be it with calls that the log of a steady client lacks"
        ),
        otherwise=(
            "warning: it depends on the SASL mechanism of a client that logs in, or on optional calls that "
            "the client makes. Unknown: the measured releases around it differ; or the software was not measured, and "
            "the client logs in, or the log lacks the calls with which it starts"
        ),
    ),
    Check(
        "inter-broker",
        blocks="",
        otherwise=(
            "never: it says which requests are not held against a client, how many there are, and under which "
            "client ids"
        ),
    ),
    Check(
        "feature-levels",
        blocks=(
            "a finalized level that brokers of the target do not support: they do not start. `do` says "
            "whether the metadata can be lowered, by the rules of the controller (KIP-778): lossless, or not "
            "at all, because no release of Kafka carries out a lossy downgrade. A level that the controller "
            "refuses, with its words. A cluster with ZooKeeper, or in the middle of its migration to KRaft, "
            "and a release from 4.0 on, which runs with KRaft alone and needs `metadata.version` 3.3-IV3 "
            "(KIP-833, KIP-866)"
        ),
        otherwise="unknown: the controller's rules leave it open, or the tables have no levels. A warning: the level "
        "changes configs, which stay when it is lowered again *(seen: 4.0 to 4.4)*",
    ),
    Check(
        "metadata-log",
        blocks="",
        otherwise=(
            "unknown, after a day a warning: a level that was lowered may be in the metadata log still, and "
            "older controllers do not start with it *(seen: 3.9.2)*. It is known where a run saw the level "
            "before"
        ),
    ),
    Check(
        "brokers",
        blocks="",
        otherwise="unknown: a broker did not answer",
    ),
    Check(
        "coordinator-records",
        blocks=(
            "records at which the target's coordinators stop, or which they skip while the group has members, "
            "or of a transactional id (KIP-915)"
        ),
        otherwise=(
            "warning: skipped records of a group without members, fields that are ignored. Unknown: a "
            "coordinator would stop at a record that is overwritten or deleted, because it may be in the log "
            "still; it would skip a record of a type that featuregate does not know, which may be of a group "
            "with members; or records cannot be decoded. Stale: they were read too long ago"
        ),
    ),
    Check(
        "protocols",
        blocks="members of a group whose protocol brokers do not serve at level 0",
        otherwise="by `coordinator-records`, as above",
    ),
    Check(
        "app-gates",
        blocks=(
            "an app is latched on what the move removes, a level or an API: it goes on as if that were there (KIP-584)"
        ),
        otherwise=(
            "warning: a gate that is not latched closes, or a latched one holds against the cluster already. "
            "Unknown: this release cannot read the requirement; or a sticky gate was closed at its last "
            "report, and the cluster has since what it waits for"
        ),
    ),
    Check(
        "usage-reports",
        blocks="",
        otherwise=(
            "warning: an app has not reported for an hour, by other apps or by the time at which brokers were "
            "asked; or records could not be read. Unknown: no app has reported, and the move takes levels; or "
            "more than 1 % of the records could not be read"
        ),
    ),
    Check(
        "models",
        blocks=(
            "a group in a model in which brokers check the generation of members, and those of the target do "
            "not (KIP-447)"
        ),
        otherwise="",
    ),
    Check(
        "transactions",
        blocks="",
        otherwise=(
            "warning: while brokers of 4.2.0 and older ones run together, the [transactions of a client may "
            "stay open](exactly-once-danger.md) (KAFKA-20322). No evidence shows the patch, so it warns of "
            "4.2.1, too, which asks other brokers for their versions"
        ),
    ),
)
