"""The latches of an app in its latch store: read once a poll, and written before a gate opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.gating.latch_store import LatchStore, PartialLatchStore, StartingLatchStore
from featuregate.gating.latches import LatchState, advance, join
from featuregate.logs import get_logger

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

logger = get_logger("featuregate")


StartFrom = Literal["answers", "latch"]
"""When latched gates are open after a restart: see ``start_from`` of :class:`featuregate.Discoverer`."""


class LatchStart(NamedTuple):
    """The cluster whose latches count before the first answer. Without either field, no latch counts."""

    cluster_id: str | None = None
    """The cluster that the app names."""
    source: str | None = None
    """The cluster that this source last led to, as a :class:`StartingLatchStore` knows it."""


FROM_ANSWERS: Final = LatchStart()


class DurableLatches:
    """Holds what the latch store is known to hold of each cluster, and why it may hold less. Takes no lock."""

    def __init__(self, latch_store: LatchStore, start: LatchStart = FROM_ANSWERS) -> None:
        self._latch_store = latch_store
        self._start = start
        self._noted: str | None = None
        self._durable: dict[str | None, LatchState] = {}
        self._corruption: str | None = None
        self._error: str | None = None

    @property
    def error(self) -> str | None:
        """Why a latch is not durable, or what was lost; ``None`` when all is well."""
        unread = self._latch_store.unread if isinstance(self._latch_store, PartialLatchStore) else None
        return self._error or self._corruption or unread

    def expire(self, cluster_id: str | None) -> None:
        """Read the latches of this cluster again at the next look: other processes may have latched."""
        self._durable.pop(cluster_id, None)

    def first_state(self) -> LatchState:
        """Return the latches that count before the first answer: none where the cluster is not known.

        An app's own latch store may raise anything, and the poll that comes will try again.
        """
        try:
            cluster_id = self._start.cluster_id or self._last_cluster()
            return LatchState() if cluster_id is None else self._load(cluster_id)
        except Exception as error:  # noqa: BLE001 - see above
            self._report("no gate starts from its latch", error)
            return LatchState()

    def advance(self, state: LatchState, seen: View, added: Callable[[LatchState], LatchState]) -> LatchState:
        """Join what the latch store holds, and make durable what is new: risen levels, and what is ``added`` to it.

        Levels that cannot be made durable rise in memory; gates do not open. An app's own latch store may
        raise anything, and must not cost us the view.
        """
        proved = advance(state, seen)
        try:
            if seen.cluster_id not in self._durable:
                state = join(state, self._load(seen.cluster_id))
            proved = advance(state, seen)
            moved = join(proved, added(state))
            if moved != self._durable[seen.cluster_id]:
                moved = join(proved, saved := self._latch_store.save(moved))
                self._durable[seen.cluster_id] = saved
        except Exception as error:  # noqa: BLE001 - see above
            self._report("latches are not durable", error)
            return proved
        self._error = None
        self._note_cluster(seen.cluster_id)
        return moved

    def _load(self, cluster_id: str | None) -> LatchState:
        """Read what is on the latch store: the latches of other processes, and those of earlier ones."""
        if cluster_id is None:
            raise LatchStoreError(
                self._latch_store,
                "the cluster reports no id, and a latch belongs to a cluster: name the cluster by cluster_id",
            )
        there = LatchState(cluster_id=cluster_id)
        try:
            there = self._latch_store.load(cluster_id) or there
        except LatchStoreCorrupt as error:
            logger.error("%s", error)  # noqa: TRY400 - the sentence says it all, a traceback would bury it
            self._corruption = str(error)
        self._durable[cluster_id] = there
        return there

    def _last_cluster(self) -> str | None:
        if self._start.source is None or not isinstance(self._latch_store, StartingLatchStore):
            return None
        return self._latch_store.last_cluster(self._start.source)

    def _note_cluster(self, cluster_id: str | None) -> None:
        """Keep which cluster the source leads to; where that fails, the latches are durable all the same."""
        source, latch_store = self._start.source, self._latch_store
        if source is None or cluster_id in (None, self._noted) or not isinstance(latch_store, StartingLatchStore):
            return
        try:
            latch_store.note_cluster(source, cluster_id)
        except Exception as error:  # noqa: BLE001 - see advance
            self._report("the next start will not find its latches", error)
        else:
            self._noted = cluster_id

    def _report(self, what: str, error: Exception) -> None:
        said = str(error) if isinstance(error, LatchStoreError) else f"the latch store failed: {error!r}"
        if self._error != said:
            logger.error("%s: %s", what, said)
        self._error = said
