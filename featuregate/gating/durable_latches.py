"""The latches of an app, and its latch store: read once a poll, and written before a gate opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.gating.latch_store import LatchStore, PartialLatchStore, StartingLatchStore
from featuregate.gating.latches import LatchedGate, LatchState, advance, join
from featuregate.logs import get_logger
from featuregate.printable import some

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
    """Holds the latches of each cluster, what its latch store is known to hold, and why that may be less.

    Takes no lock. Without a latch store, latches live as long as the process.
    """

    def __init__(self, latch_store: LatchStore | None, start: LatchStart = FROM_ANSWERS) -> None:
        self._latch_store = latch_store
        self._start = start
        self._first: LatchState | None = None
        self._noted: str | None = None
        self._states: dict[str | None, LatchState] = {}
        self._durable: dict[str | None, LatchState] = {}
        self._corruption: str | None = None
        self._error: str | None = None
        self.taken_back: str | None = None
        """Says that gates had started open by the latches of another cluster than the one that answers."""

    @property
    def may_block(self) -> bool:
        """Whether there is a latch store."""
        return self._latch_store is not None

    @property
    def error(self) -> str | None:
        """Why a latch is not durable, or what was lost; ``None`` when all is well."""
        unread = self._latch_store.unread if isinstance(self._latch_store, PartialLatchStore) else None
        return self._error or self._corruption or unread

    def expire(self, cluster_id: str | None) -> None:
        """Read the latches of this cluster again at the next look: other processes may have latched."""
        self._durable.pop(cluster_id, None)

    def first_state(self) -> LatchState:
        """Return the latches that count before the first answer, which are read once: none of an unknown cluster.

        An app's own latch store may raise anything, and the poll that comes will try again.
        """
        if self._first is None:
            self._first = LatchState()
            try:
                cluster_id = self._start.cluster_id or self._last_cluster()
                if self._latch_store is not None and cluster_id is not None:
                    self._first = self._load(self._latch_store, cluster_id)
            except Exception as error:  # noqa: BLE001 - see above
                self._report("no gate starts from its latch", error)
        return self._first

    def take_back(self, found: str, gates: Sequence[str]) -> bool:
        """Take back the start of these open gates where another cluster answers; return whether it is another."""
        if not gates or (expected := self.first_state().cluster_id) == found:
            return False
        self._first = LatchState()
        self.taken_back = (
            f"cluster {found} answers, and not cluster {expected}, from whose latches these gates had started open: "
            f"{some(gates)}; they start afresh"
        )
        logger.error("%s", self.taken_back)
        return True

    def advance(
        self, seen: View, elsewhere: Iterable[LatchedGate], added: Callable[[LatchState], LatchState]
    ) -> LatchState:
        """Return the latches of a cluster after a view: what other processes have latched, and what is durable here.

        ``added`` returns a state with what this process adds to it.
        """
        state = self._states.get(seen.cluster_id, LatchState(cluster_id=seen.cluster_id))
        state = advance(state, seen, [one for one in elsewhere if one.key not in state.gates])
        state = added(state) if self._latch_store is None else self._write(self._latch_store, state, added)
        self._states[seen.cluster_id] = state
        return state

    def _write(
        self, latch_store: LatchStore, state: LatchState, added: Callable[[LatchState], LatchState]
    ) -> LatchState:
        """Join what the latch store holds, and make durable what is new.

        Levels that cannot be made durable rise in memory; gates do not open. An app's own latch store may
        raise anything, and must not cost us the view.
        """
        cluster_id = state.cluster_id
        try:
            if cluster_id not in self._durable:
                state = join(state, self._load(latch_store, cluster_id))
            moved = added(state)
            if moved != self._durable[cluster_id]:
                moved = join(state, saved := latch_store.save(moved))
                self._durable[cluster_id] = saved
        except Exception as error:  # noqa: BLE001 - see above
            self._report("latches are not durable", error)
            return state
        self._error = None
        self._note_cluster(cluster_id)
        return moved

    def _load(self, latch_store: LatchStore, cluster_id: str | None) -> LatchState:
        """Read what is on the latch store: the latches of other processes, and those of earlier ones."""
        if cluster_id is None:
            raise LatchStoreError(
                latch_store,
                "the cluster reports no id, and a latch belongs to a cluster: name the cluster by cluster_id",
            )
        there = LatchState(cluster_id=cluster_id)
        try:
            there = latch_store.load(cluster_id) or there
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
        except Exception as error:  # noqa: BLE001 - see _write
            self._report("the next start will not find its latches", error)
        else:
            self._noted = cluster_id

    def _report(self, what: str, error: Exception) -> None:
        said = f"{what}: {error if isinstance(error, LatchStoreError) else f'the latch store failed: {error!r}'}"
        if self._error != said:
            logger.error("%s", said)
        self._error = said
