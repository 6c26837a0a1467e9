"""The checks of coordinators' records (KIP-915), and of the members that they show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from featuregate.records.releases import Loss, coordinator_release
from featuregate_fleet.readiness.rows import Row, Verdict, grouped

if TYPE_CHECKING:
    from featuregate_fleet.readiness.api_ranges import ServedApis
    from featuregate_fleet.readiness.evidence import Evidence, RecordUse

_TXN_OFFSET_COMMIT: Final = 28
_WITH_GENERATION: Final = 3
"""The version of TxnOffsetCommit from which on brokers check the generation of a member (KIP-447)."""
_NEED_GENERATION: Final = frozenset({"bridge", "v2", "unknown"})

_CHECK: Final = "coordinator-records"
_FATAL: Final = frozenset({"stops", "misreads"})
_WHAT: Final = {
    "stops": "stops loading the whole partition, and every group or id in it starts over",
    "misreads": "misreads the whole partition",
    "skips": "goes on without these records",
    "ignores": "goes on without some fields",
}
_ADVICE: Final = {
    "skips": "Move {subject} to what Kafka {version} has, or stop its members, before the brokers move.",
    "ignores": "",
}
_STOP: Final = "Stop {subject}, delete it, and wait until compaction has removed its records."
_UPGRADE: Final = "Upgrade featuregate where you run 'featuregate fleet', and read the records again."


def coordinator_records(evidence: Evidence, version: str, oldest: datetime) -> Iterator[Row]:
    """Check of each group and transactional id whether the coordinators of a release can read its records.

    A record that was overwritten or deleted may still be in the log, and coordinators load what is there. Where such a
    record would stop them, the verdict is unknown.
    """
    if evidence.records_read is None:
        return
    gaps = list(gaps_in_records(evidence, oldest))
    yield from gaps
    if evidence.records_read < oldest:
        return
    try:
        reader = coordinator_release(version)
    except LookupError as error:
        yield _of_cluster(Verdict.UNKNOWN, f"{error}.", evidence)
        return
    live = {_subject(use) for use in evidence.records if _is_live(use)}
    lost: list[tuple[RecordUse, Loss]] = []
    for use in evidence.records:
        if use.topic in reader.reads and use.record_type is not None:
            loss = reader.loss(use.topic, use.record_type, use.version, use.tagged_fields)
            if loss is not None and (use.current or loss.kind in _FATAL):
                lost.append((use, loss))
    for (subject, current), found in grouped(lost, lambda item: (_subject(item[0]), item[0].current)):
        yield _loss_row(version, subject, found, current=current, live=subject in live, evidence=evidence)
    if not lost and not gaps:
        why = f"Coordinators of Kafka {version} read all records of groups and transactional ids."
        yield _of_cluster(Verdict.OK, why, evidence)


def gaps_in_records(evidence: Evidence, oldest: datetime) -> Iterator[Row]:
    """Say that a group may be hidden: records were not read, or too long ago, or some of them cannot be decoded."""
    if evidence.records_read is None:
        do = "Run 'featuregate fleet run' with --bootstrap-server, as a user with READ on coordinators' topics."
        yield Row(_CHECK, Verdict.UNKNOWN, "the cluster", "The records of its coordinators were not read.", do)
    elif evidence.records_read < oldest:
        since = "before the levels of the cluster changed" if evidence.levels_unchanged is False else "too long ago"
        yield _of_cluster(Verdict.STALE, f"The records of coordinators were read {since}.", evidence)
    elif unreadable := sum(use.count for use in evidence.records if use.reason == "unreadable"):
        yield _of_cluster(Verdict.UNKNOWN, f"{unreadable} records of coordinators cannot be decoded.", evidence)


def _loss_row(
    version: str, subject: str, found: list[tuple[RecordUse, Loss]], *, current: bool, live: bool, evidence: Evidence
) -> Row:
    order = list(_WHAT)
    worst = min(found, key=lambda item: order.index(item[1].kind))[1]
    affected = [use for use, loss in found if loss.kind == worst.kind]
    why = f"A coordinator of Kafka {version} {_WHAT[worst.kind]}: {worst.why}."
    do = _ADVICE.get(worst.kind, _STOP).format(subject=subject, version=version)
    if not current:
        verdict, why = Verdict.UNKNOWN, f"{why} The records are overwritten, and may still be in the log."
    elif worst.kind in _FATAL or (worst.kind == "skips" and live):
        verdict = Verdict.BLOCK
    elif worst.kind == "skips" and any(use.kind is None for use in affected):
        verdict, why, do = Verdict.UNKNOWN, f"{why} It is not known whether a group needs them.", _UPGRADE
    else:
        verdict = Verdict.WARN
    kinds = ", ".join(sorted({use.kind or f"type {use.record_type}" for use in affected}))
    versions = tuple(sorted({use.version for use in affected if use.version is not None}))
    client_ids, said = _client_ids(use for use, _ in found), f"{why} Records: {kinds}."
    return _row(_CHECK, verdict, subject, said, do, evidence, affected, client_id=client_ids, versions=versions)


def models(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check whether groups that are exactly-once by their generation stay so: brokers have to check it (KIP-447).

    Without that check a zombie's offsets are accepted, and no error says so.
    """
    has = apis.served(_TXN_OFFSET_COMMIT)
    if evidence.records_read is None or (has is not None and has.highest >= _WITH_GENERATION):
        return
    affected = [use for use in evidence.records if use.group and use.current and use.model in _NEED_GENERATION]
    for group, uses in grouped(affected, attrgetter("group")):
        why = (
            f"It commits in the model {', '.join(sorted({str(use.model) for use in uses}))}, for which brokers "
            f"check the generation of members (TxnOffsetCommit 3), and {apis.brokers} does not."
        )
        do = "Roll the group back before: 'featuregate group rollback'."
        yield _row("models", Verdict.BLOCK, f"group {group!r}", why, do, evidence, uses, api="TxnOffsetCommit")


def members_of(evidence: Evidence, protocol: str, target: str) -> Iterator[Row]:
    """Block on each group with members that speak a protocol, because the move takes it away."""
    members = [use for use in evidence.records if use.group and use.protocol == protocol and _is_live(use)]
    for group, uses in grouped(members, attrgetter("group")):
        why = f"It has members of the {protocol} protocol, which brokers do not serve with {target}."
        do = f"Stop the members of group {group!r}, or move them to another protocol, before."
        client_ids = _client_ids(uses)
        yield _row("protocols", Verdict.BLOCK, f"group {group!r}", why, do, evidence, uses, client_id=client_ids)


def _of_cluster(verdict: Verdict, why: str, evidence: Evidence) -> Row:
    do = "" if verdict is Verdict.OK else "Read the records again: 'featuregate fleet run' with --bootstrap-server."
    return _row(_CHECK, verdict, "the cluster", why, do, evidence, evidence.records)


def _row(
    check: str,
    verdict: Verdict,
    subject: str,
    why: str,
    do: str,
    evidence: Evidence,
    uses: Sequence[RecordUse],
    **of: Any,
) -> Row:
    """Return a finding about records: how many, when they were written first, and when they were read.

    A record is there until it is deleted.
    """
    first = min((use.first_seen for use in uses), default=None)
    seen: dict[str, Any] = {
        "count": sum(use.count for use in uses),
        "first_seen": first,
        "last_seen": evidence.records_read,
    }
    return Row(check, verdict, subject, why, do, **seen, **of)


def _is_live(use: RecordUse) -> bool:
    """Return whether something breaks without a record: a member, or a transactional id."""
    member = (use.kind or "").endswith("MemberMetadata")
    return use.current and use.version is not None and (member or bool(use.transactional_id))


def _subject(use: RecordUse) -> str:
    if use.group:
        return f"group {use.group!r}"
    return f"transactional id {use.transactional_id!r}" if use.transactional_id else f"unknown records in {use.topic}"


def _client_ids(uses: Iterable[RecordUse]) -> str | None:
    return ", ".join(sorted({name for use in uses for name in use.client_ids})) or None
