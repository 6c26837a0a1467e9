"""The latches of an app in its latch store: read once a poll, and written before a gate opens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.gating.latches import LatchState, advance, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from featuregate.gating.latch_store import LatchStore
    from featuregate.gating.latches import LatchedGate
    from featuregate.view.cluster_view import View

logger = logging.getLogger("featuregate")


class DurableLatches:
    """Holds what the latch store is known to hold of each cluster, and why it may hold less. Takes no lock."""

    def __init__(self, latch_store: LatchStore) -> None:
        self._latch_store = latch_store
        self._durable: dict[str | None, LatchState] = {}
        self._corruption: str | None = None
        self._write_error: str | None = None

    @property
    def error(self) -> str | None:
        """Why a latch is not durable, or what was lost; ``None`` when all is well."""
        return self._write_error or self._corruption

    def expire(self, cluster_id: str | None) -> None:
        """Read the latches of this cluster again at the next look: other processes may have latched."""
        self._durable.pop(cluster_id, None)

    def advance(
        self, state: LatchState, seen: View, newly_open: Callable[[LatchState], Iterable[LatchedGate]]
    ) -> LatchState:
        """Join what the latch store holds, and make durable what is new: risen levels, and gates ``newly_open``.

        Levels that cannot be made durable rise in memory; gates do not open. An app's own latch store may
        raise anything, and must not cost us the view.
        """
        proved = advance(state, seen)
        try:
            if seen.cluster_id not in self._durable:
                state = join(state, self._load(seen.cluster_id))
            proved = advance(state, seen)
            moved = advance(state, seen, newly_open(state))
            if moved != self._durable[seen.cluster_id]:
                moved = join(proved, saved := self._latch_store.save(moved))
                self._durable[seen.cluster_id] = saved
        except Exception as error:  # noqa: BLE001 - see above
            self._report(error)
            return proved
        self._write_error = None
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

    def _report(self, error: Exception) -> None:
        said = str(error) if isinstance(error, LatchStoreError) else f"the latch store failed: {error!r}"
        if self._write_error != said:
            logger.error("latches are not durable: %s", said)
        self._write_error = said
