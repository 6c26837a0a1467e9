"""Whether a topic is the one that a stream has read before, and stays it while the stream reads."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.files.storage import make_folder, replace_text
from featuregate_fleet.stream.internal_topics import TopicEnds, topic_ends
from featuregate_fleet.tables.failures import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession


_FILE: Final = "topic_id"


@contextmanager
def same_topic(spark: SparkSession, java: Mapping[str, str], found: TopicEnds, checkpoint: Path) -> Iterator[None]:
    """Read a topic that exists: raise `TablesBroken` where it is another one than before, or vanishes meanwhile.

    Spark goes on at the old offset of a topic that was created again, and reads nothing of one that vanishes before its
    first record: it says nothing of either. The id of the topic is a file in the checkpoint.
    """
    _check(found, checkpoint)
    try:
        yield
    except PySparkException as error:
        _check(topic_ends(spark, java, [found.topic])[0], checkpoint)
        raise TablesBroken(f"the stream over the topic {found.topic} failed: {cause_of(error)}") from error
    _check(topic_ends(spark, java, [found.topic])[0], checkpoint)


def _check(found: TopicEnds, checkpoint: Path) -> None:
    if not found.ends:
        raise TablesBroken(
            f"the topic {found.topic} was deleted while it was read; the tables keep what was read before"
        )
    file = checkpoint / _FILE
    if not file.exists():
        if found.topic_id:
            make_folder(checkpoint)
            replace_text(file, found.topic_id)
        return
    if (before := file.read_text()) != found.topic_id:
        raise TablesBroken(
            f"the topic {found.topic} was deleted and created again: its id was {before}, and is "
            f"{found.topic_id or 'none'} now; give the evidence in it another --cluster"
        )
