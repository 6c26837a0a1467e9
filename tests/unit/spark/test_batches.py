"""Pinned micro-batches without Spark: what is written before a batch runs, and what a replay reads."""

import logging
import pickle
from types import SimpleNamespace
from typing import Any, cast

import pytest

from featuregate import View
from featuregate.testing import StaticFeatures, release_view
from featuregate_spark import PinCorrupt, PinError, Snapshot, WrongCheckpoint, WrongPython
from featuregate_spark.events import Pinned
from featuregate_spark.pins.batches import PinnedBatches
from featuregate_spark.pins.pin import BatchPin
from featuregate_spark.watch import Watch

HIGH = release_view("4.2")
LOW = release_view("4.2", finalized={"transaction.version": 1}, epoch=HIGH.epoch + 1)
NO_FEATURE = "ModuleNotFoundError: No module named 'featuregate'"


class Files(dict[str, str]):
    """The files of a checkpoint, in memory."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__(names)
        self.looked_for: list[str] = []
        self.deleted: list[str] = []

    def read(self, name: str) -> str | None:
        self.looked_for.append(name)
        return self.get(name)

    def write(self, name: str, text: str) -> str:
        return self.setdefault(name, text)

    def names(self, folder: str) -> list[str]:
        return [name.removeprefix(f"{folder}/") for name in self if name.startswith(f"{folder}/")]

    def exists(self, name: str) -> bool:
        return name in self

    def delete(self, name: str) -> None:
        self.deleted.append(name)
        self.pop(name, None)


def checkpoint(*batches: int) -> Files:
    """Return the files of a checkpoint in which Spark has written the offsets of these batches."""
    return Files({f"offsets/{batch_id}": "" for batch_id in batches})


class Driver:
    """One process that runs batches of a query, and what it has seen and done."""

    def __init__(self, files: Files, view: View = HIGH) -> None:
        self.pins: list[Snapshot] = []
        self.events: list[Any] = []
        self.processed: tuple[Any, int] | None = None
        gate = StaticFeatures(view).gate("tv2", "transaction.version>=2")
        watch = cast("Watch", SimpleNamespace(observe=lambda: (view, (gate,))))
        self.batches = PinnedBatches(
            self.process,
            checkpoint="/checkpoint",
            watch=watch,
            open_files=lambda spark, place: {("query", "/checkpoint"): files}[spark.conf.appName, place],
            emit=self.events.append,
        )

    def process(self, rows: Any, batch_id: int, pin: Snapshot) -> None:
        """Do what the app does with a batch: here it just looks at what it got."""
        self.processed = rows, batch_id
        self.pins.append(pin)

    def run(self, batch_id: int) -> Snapshot:
        rows = frame()
        self.batches(rows, batch_id)
        assert self.processed == (rows, batch_id)
        return self.pins[-1]


def frame(**of_session: object) -> Any:
    """Return the DataFrame of a batch, with the methods that the pins call."""
    context = SimpleNamespace(getLocalProperty={"sql.streaming.queryId": "query"}.get, pythonExec="python")
    conf = SimpleNamespace(appName="query", get={"spark.sql.streaming.minBatchesToRetain": "2"}.__getitem__)
    return SimpleNamespace(sparkSession=SimpleNamespace(conf=conf, **(of_session or {"sparkContext": context})))


@pytest.mark.parametrize(("session", "query_id"), [({}, "query"), ({"client": None}, None)])
def test_the_event_names_the_query_where_spark_says_it(session: dict[str, object], query_id: str | None) -> None:
    """A session of Spark Connect has no context, and a function that runs there is not told its query."""
    driver = Driver(checkpoint(0))
    driver.batches(frame(**session), 0)
    assert [each.query_id for each in driver.events] == [query_id]


def test_a_pin_is_written_before_the_function_is_called() -> None:
    """If the function crashed before the pin was written, the replay would decide anew (P4)."""
    files, written = checkpoint(0), list[Snapshot]()

    class Looking(Driver):
        def process(self, rows: Any, batch_id: int, pin: Snapshot) -> None:
            written.append(BatchPin.from_json(files["featuregate/pin-0"]).snapshot)
            super().process(rows, batch_id, pin)

    assert [Looking(files).run(0)] == written
    assert written[0]["tv2"].open


def test_a_replay_in_a_new_process_gets_the_pin_of_the_first_run() -> None:
    """The cluster has changed meanwhile, and the event says that the batch is a replay."""
    files = checkpoint(0)
    first, replay = Driver(files), Driver(files, LOW)
    assert first.run(0) == replay.run(0)
    assert [each.replayed for each in (*first.events, *replay.events)] == [False, True]


def test_a_new_process_starts_with_the_latches_of_the_newest_pin() -> None:
    """The process ignores other files in the folder."""
    files = checkpoint(0, 9, 10)
    Driver(files).run(9)
    files |= {"featuregate/pin-x": "", "featuregate/notes": "", "featuregate/pin-0": "old"}
    pin = Driver(files, LOW).run(10)
    assert (pin["tv2"].open, pin.held) == (True, ("tv2",))


def test_a_batch_reads_no_pin_but_the_newest() -> None:
    """A read of an object store takes as long as a small batch."""
    files = checkpoint(1, 2, 3)
    Driver(files).run(1)
    files.looked_for.clear()
    driver = Driver(files)
    for batch_id in (1, 2, 2, 3):
        driver.run(batch_id)
    assert files.looked_for == ["featuregate/pin-1"]


def test_the_replay_of_an_older_batch_takes_no_latch_back() -> None:
    """The batches after it go on from the newest pin, not from the one that was replayed."""
    files = checkpoint(0, 1, 2)
    Driver(files, LOW).run(0)
    driver = Driver(files)
    assert driver.run(1)["tv2"].open
    assert not driver.run(0)["tv2"].open
    assert driver.events[-1].replayed
    driver.batches.watch.observe = Driver(files, LOW).batches.watch.observe  # type: ignore[method-assign]
    assert driver.run(2).held == ("tv2",)


def test_the_event_says_what_was_pinned() -> None:
    """And how many seconds it took, by a monotonic clock, which may have run for days."""
    files = checkpoint(0, 1)
    Driver(files).run(0)
    driver = Driver(files, LOW)
    driver.run(1)
    (event,) = driver.events
    assert 0 <= event.seconds < 60
    assert event == Pinned(
        query_id="query",
        batch_id=1,
        replayed=False,
        gates={"tv2": True},
        held=("tv2",),
        epoch=LOW.epoch,
        seconds=event.seconds,
    )


def test_a_newest_pin_that_disappears_stops_the_batch() -> None:
    """Its latches would be lost."""
    files = checkpoint(4)
    files.names = lambda _folder: ["pin-3"]  # type: ignore[method-assign]
    with pytest.raises(PinError) as raised:
        Driver(files).run(4)
    assert str(raised.value) == (
        "/checkpoint/featuregate/pin-3 has disappeared: does another query use this checkpoint?"
    )


def test_a_pin_is_deleted_when_spark_no_longer_retains_its_batch() -> None:
    """The session keeps two batches, and before the third there is nothing to ask the file system for."""
    files = checkpoint(0, 1, 2)
    driver = Driver(files)
    for batch_id in range(3):
        driver.run(batch_id)
    assert files.names("featuregate") == ["pin-1", "pin-2"]
    assert files.deleted == ["featuregate/pin-0"]


def test_a_pin_that_cannot_be_deleted_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The function of the batch still runs."""

    def delete(_self: Files, _name: str) -> None:
        raise PinError("no rights")

    monkeypatch.setattr(Files, "delete", delete)
    with caplog.at_level(logging.WARNING, logger="featuregate.spark"):
        Driver(checkpoint(5)).run(5)
    assert "an old pin was not deleted: no rights" in caplog.text


def test_another_folder_is_refused() -> None:
    """The offsets in the folder are not those of the running query."""
    with pytest.raises(WrongCheckpoint) as raised:
        Driver(checkpoint(3)).run(4)
    assert str(raised.value) == (
        "/checkpoint has no offsets of batch 4, which runs now: pass the checkpointLocation of the query to "
        "foreach_batch()"
    )


def test_a_corrupt_pin_stops_the_batch() -> None:
    """The error names the file, and says what an operator can do."""
    files = checkpoint(3)
    files["featuregate/pin-3"] = "{"
    driver = Driver(files)
    with pytest.raises(PinCorrupt) as raised:
        driver.run(3)
    with pytest.raises(PinCorrupt) as cause:
        BatchPin.from_json("{")
    assert str(raised.value) == (
        f"featuregate/pin-3 next to the checkpoint cannot be read: {cause.value}. Nothing was processed. If it is "
        "lost, delete it while the query is stopped: its batch is then decided again, with the latches of the "
        "previous pin"
    )
    assert not driver.pins


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_corrupt_pin_of_any_batch_is_named(damaged: int) -> None:
    """The batch is replayed, or another driver has written its pin at the same moment."""
    files = checkpoint(0, 1, 2)
    driver = Driver(files)
    driver.run(0)
    driver.run(1)
    if damaged == 1:
        files.write = lambda _name, _text: "{"  # type: ignore[method-assign]
    files["featuregate/pin-0"] = "{"
    with pytest.raises(PinCorrupt, match=rf"^featuregate/pin-{damaged * 2} next to the checkpoint cannot be read"):
        driver.run(damaged * 2)


def test_a_worker_that_cannot_run_featuregate_is_named() -> None:
    """Spark's Java trace contains the cause; any other error is the app's own."""
    driver = Driver(checkpoint(0))
    for error, kind in ((RuntimeError(NO_FEATURE), WrongPython), (ZeroDivisionError(), ZeroDivisionError)):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        driver.batches.function = fail
        with pytest.raises(kind):
            driver.run(0)


def test_batches_travel_without_the_state_of_their_process() -> None:
    """On Spark Connect the batches run in another process, which reads the newest pin itself."""
    driver = Driver(checkpoint(0))
    driver.run(0)
    state = driver.batches.__getstate__()
    assert (state["_files"], state["_newest"]) == (None, None)
    assert pickle.loads(pickle.dumps(driver.pins[0])) == driver.pins[0]
