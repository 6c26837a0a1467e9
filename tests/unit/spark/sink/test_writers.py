"""Which calls of two sinks with one name are refused."""

import gc
from contextlib import suppress

import pytest

from featuregate_spark import WrittenBefore
from featuregate_spark.sink.plans import Run
from featuregate_spark.sink.writers import QueryName, Writers

NAME = QueryName("copies", "cluster")
FIRST, SECOND, OTHER = Run("checkpoint", "first"), Run("checkpoint", "second"), Run("other", "third")
UNKNOWN = Run()


class Sink:
    """Stands for a sink."""


@pytest.fixture
def writers() -> Writers:
    return Writers()


def write(writers: Writers, sink: object, run: Run, batch_id: int, name: QueryName = NAME) -> None:
    with writers.writing(name, sink, run, batch_id):
        pass


@pytest.mark.parametrize("run", [FIRST, UNKNOWN])
def test_a_second_sink_of_a_name_is_refused_in_a_batch(writers: Writers, run: Run) -> None:
    """Kafka would show its rows as written. The first sink goes on with the next batch."""
    first, second = Sink(), Sink()
    write(writers, first, run, 3)
    for _ in range(2):
        with pytest.raises(WrittenBefore, match=r"another sink of query 'copies' .* has begun batch 3"):
            write(writers, second, run, 3)
    write(writers, first, run, 4)


@pytest.mark.parametrize("run", [FIRST, UNKNOWN])
@pytest.mark.parametrize("batch_id", [3, 4])
def test_a_second_sink_is_refused_while_the_first_one_writes(writers: Writers, run: Run, batch_id: int) -> None:
    """Each would fence the producers of the other."""
    with writers.writing(NAME, Sink(), run, 3), pytest.raises(WrittenBefore):
        write(writers, Sink(), run, batch_id)


def test_a_second_sink_is_refused_where_the_first_one_has_failed_or_is_gone(writers: Writers) -> None:
    """Some of its shards may have committed, and a run has each batch once."""
    for batch_id in (0, 1):
        sink = Sink()
        with suppress(ZeroDivisionError), writers.writing(NAME, sink, FIRST, batch_id):
            raise ZeroDivisionError
        if batch_id:
            writers.forget(sink)
        del sink
        gc.collect()
        with pytest.raises(WrittenBefore):
            write(writers, Sink(), FIRST, batch_id)


def test_outside_of_a_run_a_new_sink_may_replay_a_batch(writers: Writers) -> None:
    """After the first one has failed, was closed, or is not referred to any more."""
    failed, closed, again = Sink(), Sink(), Sink()
    with suppress(ZeroDivisionError), writers.writing(NAME, failed, UNKNOWN, 3):
        raise ZeroDivisionError
    write(writers, closed, UNKNOWN, 3)
    writers.forget(closed)
    write(writers, Sink(), UNKNOWN, 3)
    gc.collect()
    write(writers, again, UNKNOWN, 3)
    write(writers, again, UNKNOWN, 3)


def test_a_restart_of_the_query_takes_the_name_over(writers: Writers) -> None:
    """The batch is replayed, by a new sink or the same one, even while a call of the old run has not returned yet."""
    first, second = Sink(), Sink()
    write(writers, first, FIRST, 3)
    with writers.writing(NAME, second, SECOND, 3):
        write(writers, first, FIRST._replace(id="fourth"), 3)
    write(writers, second, SECOND, 4)


def test_two_queries_do_not_write_under_one_name_at_once(writers: Writers) -> None:
    """The progress tells their checkpoints apart once one of them has committed."""
    with writers.writing(NAME, Sink(), FIRST, 3), pytest.raises(WrittenBefore):
        write(writers, Sink(), OTHER, 0)
    write(writers, Sink(), OTHER, 0)


def test_sinks_of_other_names_and_clusters_are_independent(writers: Writers) -> None:
    """One function may write to two clusters under one name."""
    write(writers, Sink(), FIRST, 3)
    write(writers, Sink(), FIRST, 3, NAME._replace(cluster="other"))
    write(writers, Sink(), FIRST, 3, NAME._replace(query="other"))
