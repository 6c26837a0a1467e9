"""A latch store in memory, which outlives the processes of a test."""

from featuregate.gating.latches import LatchState, join


class MemoryLatchStore:
    def __init__(self) -> None:
        self.there: dict[str, LatchState] = {}
        self.clusters: dict[str, str] = {}
        self.loads = self.saves = 0
        self.unreadable: Exception | None = None
        """What loading raises."""
        self.full: Exception | None = None
        """What saving raises."""
        self.unread: str | None = None
        """What it says of records that it leaves out."""

    def load(self, cluster_id: str) -> LatchState | None:
        if self.unreadable:
            raise self.unreadable
        self.loads += 1
        return self.there.get(cluster_id)

    def save(self, state: LatchState) -> LatchState:
        if self.full:
            raise self.full
        assert state.cluster_id is not None
        self.saves += 1
        self.there[state.cluster_id] = join(self.there.get(state.cluster_id, state), state)
        return self.there[state.cluster_id]

    def last_cluster(self, source: str) -> str | None:
        return self.clusters.get(source)

    def note_cluster(self, source: str, cluster_id: str) -> None:
        self.clusters[source] = cluster_id
