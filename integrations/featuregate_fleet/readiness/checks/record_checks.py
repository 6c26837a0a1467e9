"""The checks of coordinators' records (KIP-915), and of the members that they show. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from featuregate.records.releases import CoordinatorRelease, Loss, coordinator_release
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from featuregate_fleet.readiness.api_ranges import ServedApis
    from featuregate_fleet.readiness.evidence import Evidence, RecordUse

_TXN_OFFSET_COMMIT: Final = 28
_WITH_GENERATION: Final = 3
"""The version of TxnOffsetCommit from which on brokers check the generation of a member (KIP-447)."""
_NEED_GENERATION: Final = frozenset({"bridge", "v2", "unknown"})

_FATAL: Final = frozenset({"stops", "misreads"})
_WHAT: Final = {
    "stops": "stops loading the whole partition, and every group or id in it starts over",
    "misreads": "misreads the whole partition",
    "skips": "goes on without these records",
    "ignores": "goes on without some fields",
}
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
    lost: defaultdict[tuple[str, bool], list[tuple[RecordUse, Loss]]] = defaultdict(list)
    for use, loss in _losses(evidence.records, reader):
        lost[_subject(use), use.current].append((use, loss))
    for (subject, current), found in sorted(lost.items()):
        yield _loss_row(version, subject, found, current=current, live=subject in live, evidence=evidence)
    if not lost and not gaps:
        why = f"Coordinators of Kafka {version} read all records of groups and transactional ids."
        yield _of_cluster(Verdict.OK, why, evidence)


def gaps_in_records(evidence: Evidence, oldest: datetime) -> Iterator[Row]:
    """Say that a group may be hidden: records were not read, or too long ago, or some of them cannot be decoded."""
    if evidence.records_read is None:
        yield Row(
            check="coordinator-records",
            verdict=Verdict.UNKNOWN,
            subject="the cluster",
            why="The records of its coordinators were not read.",
            do="Run 'featuregate fleet run' with --bootstrap-server, as a user with READ on coordinators' topics.",
        )
    elif evidence.records_read < oldest:
        since = "before the levels of the cluster changed" if evidence.levels_unchanged is False else "too long ago"
        yield _of_cluster(Verdict.STALE, f"The records of coordinators were read {since}.", evidence)
    elif unreadable := sum(use.count for use in evidence.records if use.reason == "unreadable"):
        yield _of_cluster(Verdict.UNKNOWN, f"{unreadable} records of coordinators cannot be decoded.", evidence)


def _losses(records: Iterable[RecordUse], reader: CoordinatorRelease) -> Iterator[tuple[RecordUse, Loss]]:
    for use in records:
        if use.topic in reader.reads and use.record_type is not None:
            loss = reader.loss(use.topic, use.record_type, use.version, use.tagged_fields)
            if loss is not None and (use.current or loss.kind in _FATAL):
                yield use, loss


def _loss_row(
    version: str, subject: str, found: list[tuple[RecordUse, Loss]], *, current: bool, live: bool, evidence: Evidence
) -> Row:
    order = list(_WHAT)
    worst = min(found, key=lambda item: order.index(item[1].kind))[1]
    affected = [use for use, loss in found if loss.kind == worst.kind]
    why = f"A coordinator of Kafka {version} {_WHAT[worst.kind]}: {worst.why}."
    do = _advice(subject, worst.kind, version)
    if not current:
        verdict, why = Verdict.UNKNOWN, f"{why} The records are overwritten, and may still be in the log."
    elif worst.kind in _FATAL or (worst.kind == "skips" and live):
        verdict = Verdict.BLOCK
    elif worst.kind == "skips" and any(use.kind is None for use in affected):
        verdict, why, do = Verdict.UNKNOWN, f"{why} It is not known whether a group needs them.", _UPGRADE
    else:
        verdict = Verdict.WARN
    kinds = ", ".join(sorted({use.kind or f"type {use.record_type}" for use in affected}))
    return Row(
        check="coordinator-records",
        verdict=verdict,
        subject=subject,
        why=f"{why} Records: {kinds}.",
        do=do,
        client_id=_client_ids(use for use, _ in found),
        versions=tuple(sorted({use.version for use in affected if use.version is not None})),
        count=sum(use.count for use in affected),
        **_when(evidence, affected),
    )


def _advice(subject: str, kind: str, version: str) -> str:
    if kind == "ignores":
        return ""
    if kind == "skips":
        return f"Move {subject} to what Kafka {version} has, or stop its members, before the brokers move."
    return f"Stop {subject}, delete it, and wait until compaction has removed its records."


def models(evidence: Evidence, apis: ServedApis) -> Iterator[Row]:
    """Check whether groups that are exactly-once by their generation stay so: brokers have to check it (KIP-447).

    Without that check a zombie's offsets are accepted, and no error says so.
    """
    has = apis.served(_TXN_OFFSET_COMMIT)
    if evidence.records_read is None or (has is not None and has.highest >= _WITH_GENERATION):
        return
    by_group: defaultdict[str, list[RecordUse]] = defaultdict(list)
    for use in evidence.records:
        if use.current and use.group and use.model in _NEED_GENERATION:
            by_group[use.group].append(use)
    for group, uses in sorted(by_group.items()):
        yield Row(
            check="models",
            verdict=Verdict.BLOCK,
            subject=f"group {group!r}",
            why=f"It commits in the model {', '.join(sorted({str(use.model) for use in uses}))}, for which brokers "
            f"check the generation of members (TxnOffsetCommit 3), and {apis.brokers} does not.",
            do="Roll the group back before: 'featuregate group rollback'.",
            api="TxnOffsetCommit",
            count=sum(use.count for use in uses),
            **_when(evidence, uses),
        )


def members_of(evidence: Evidence, protocol: str, target: str) -> Iterator[Row]:
    """Block on each group with members that speak a protocol, because the move takes it away."""
    by_group: defaultdict[str, list[RecordUse]] = defaultdict(list)
    for use in evidence.records:
        if use.group and use.protocol == protocol and _is_live(use):
            by_group[use.group].append(use)
    for group, uses in sorted(by_group.items()):
        yield Row(
            check="protocols",
            verdict=Verdict.BLOCK,
            subject=f"group {group!r}",
            why=f"It has members of the {protocol} protocol, which brokers do not serve with {target}.",
            do=f"Stop the members of group {group!r}, or move them to another protocol, before.",
            client_id=_client_ids(uses),
            count=sum(use.count for use in uses),
            **_when(evidence, uses),
        )


def _of_cluster(verdict: Verdict, why: str, evidence: Evidence) -> Row:
    return Row(
        check="coordinator-records",
        verdict=verdict,
        subject="the cluster",
        why=why,
        do="" if verdict is Verdict.OK else "Read the records again: 'featuregate fleet run' with --bootstrap-server.",
        count=sum(use.count for use in evidence.records),
        **_when(evidence, evidence.records),
    )


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


def _when(evidence: Evidence, uses: Iterable[RecordUse]) -> dict[str, Any]:
    """Return when the records were written first, and when they were seen: a record is there until it is deleted."""
    first = min((use.first_seen for use in uses), default=None)
    return {"first_seen": first, "last_seen": evidence.records_read}
