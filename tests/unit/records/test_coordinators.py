"""What coordinators of each release read, and what an older one loses (KIP-915)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from record_strategies import LOGS, records
from transcripts import retold, sections

from featuregate.records import CONSUMER_OFFSETS, CoordinatorRecord, CoordinatorTopic, Value, tagged_fields
from featuregate.records.releases import CoordinatorRelease, Loss, coordinator_release, coordinator_releases

READ = sections(__file__, "coordinators.txt")


def asked(text: str) -> CoordinatorRelease:
    release, *protocol = text.split(" consumer_protocol=")
    return coordinator_release(release, consumer_protocol=protocol[0] == "True" if protocol else None)


def row_of(text: str) -> str:
    try:
        found = asked(text)
    except LookupError as error:
        return str(error)
    return f"{found.release}, {'skips' if found.skips_unknown_types else 'stops at'} unknown types"


def loss_of(text: str) -> str:
    release, topic, number, version, *tagged = text.split(", ")
    lost = asked(release).loss(topic, int(number), None if version == "tombstone" else int(version), tagged)
    return f"{lost.kind}: {lost.why}{''.join(f' [{field}]' for field in lost.fields)}" if lost else "nothing"


@pytest.mark.parametrize(("scene", "tell"), [("rows", row_of), ("losses", loss_of)])
def test_each_release_reads_and_loses_what_it_is_kept_to(scene: str, tell: Callable[[str], str]) -> None:
    """Kept in ``coordinators.txt``: the row that a release reads by, and what it loses of a record."""
    assert retold(READ[scene], tell) == READ[scene]


def test_each_row_names_where_it_was_read() -> None:
    """A table without a source cannot be checked."""
    assert all("of" in found.read_from for found in coordinator_releases())


@pytest.mark.parametrize("log", LOGS, ids=repr)
def test_the_newest_coordinators_read_what_this_package_reads(log: CoordinatorTopic) -> None:
    """The same types, versions and tagged fields; but they read only the first version of legacy offsets."""
    newest = coordinator_releases()[-1].reads[log.topic]
    assert {number: reading.versions for number, reading in newest.items()} == {
        number: (0, 0) if key.__name__ == "LegacyOffsetCommitKey" else value.VERSIONS
        for number, (key, value) in log.records.items()
    }
    assert not any(reading.early_access for reading in newest.values())


@given(drawn=records)
def test_the_newest_coordinators_lose_only_unknown_fields(drawn: tuple[CoordinatorTopic, CoordinatorRecord]) -> None:
    """Every tagged field of ours is in the table, under the name that `tagged_fields` gives it."""
    log, record = drawn
    tagged = tagged_fields(record.value) if isinstance(record.value, Value) else ()
    lost = coordinator_releases()[-1].loss(log.topic, record.record_type, record.version, tagged)
    if record.record_type == 0 and log is CONSUMER_OFFSETS and record.version:
        assert lost == Loss(kind="stops", why=f"value version {record.version} is not one of 0 to 0")
    elif lost is not None:
        assert lost.kind == "ignores"
        assert all("tag " in name for name in lost.fields)
