"""Which sink of this process writes a batch under a query name: rows of a second one would pass for written ones."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_spark.errors import WrittenBefore

if TYPE_CHECKING:
    from featuregate_spark.sink.plans import Run


class QueryName(NamedTuple):
    """The name of a query at one cluster."""

    query: str
    cluster: str


class SinkCall(NamedTuple):
    """The call of a sink for a batch."""

    sink: weakref.ref[object]
    run: Run
    batch_id: int
    ended: bool | None = None
    """Whether the call has written the batch; None while it writes."""

    def hinders(self, other: SinkCall) -> bool:
        """Return whether a call of another sink may have other rows of the same batch.

        In a run of a query a batch comes once. Elsewhere it may be a replay, unless the first sink is still in use.
        """
        if self.run.id and other.run.id and self.run.id != other.run.id:
            return self.ended is None and self.run.checkpoint != other.run.checkpoint
        if self.batch_id != other.batch_id:
            return self.ended is None
        if self.run.id and self.run.id == other.run.id:
            return True
        return self.sink() is not None and self.ended is not False


class Writers:
    """The last call for each name. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[QueryName, SinkCall] = {}

    @contextmanager
    def writing(self, name: QueryName, sink: object, run: Run, batch_id: int) -> Iterator[None]:
        """Write a batch under a name. Raises WrittenBefore."""
        writer = SinkCall(weakref.ref(sink), run, batch_id)
        with self._lock:
            last = self._last.get(name)
            if last is not None and last.sink() is not sink and last.hinders(writer):
                raise WrittenBefore(
                    f"another sink of query {name.query!r} in this driver has begun batch {last.batch_id}, and Kafka "
                    "could not tell its rows from these. Give each sink its own query_name, or give one sink the rows "
                    "of both in one DataFrame (df.unionByName)"
                )
            self._last[name] = writer
        ended = False
        try:
            yield
            ended = True
        finally:
            with self._lock:
                if self._last.get(name) is writer:
                    self._last[name] = writer._replace(ended=ended)

    def forget(self, sink: object) -> None:
        """Forget the finished calls of a sink that is not in use any more; those of a run stay until it has ended."""
        with self._lock:
            for name, last in list(self._last.items()):
                if last.sink() is sink and last.ended is not None and not last.run.id:
                    del self._last[name]


WRITERS: Final = Writers()
"""Those of this process."""
