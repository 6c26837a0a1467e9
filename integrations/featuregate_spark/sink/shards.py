"""How a batch is divided and written: its sharding, the batch itself, one shard of it. Pure.

The rows of a batch are divided among shards, and each shard is written in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

MAX_METADATA: Final = 4000
"""Bytes that the metadata of an offset may take: brokers keep 4,096 (``offset.metadata.max.bytes``)."""

_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Librdkafka's default."""

_METADATA: Final = re.compile(r"fgs1;shards=([1-9][0-9]{0,8});shard_by=([^;]*)(?:;checkpoint=([^;]*))?(?:;.*)?")


class Sharding(NamedTuple):
    """How the rows of a batch are divided among shards."""

    shards: int
    """The number of shards."""
    shard_by: tuple[str, ...] = ()
    """The columns that choose a row's shard. Empty: its key, or its value where the key is null."""

    def __str__(self) -> str:
        return f"{self.shards} shards and shard_by={list(self.shard_by)}"

    def to_metadata(self) -> str:
        """Return it as the metadata of an offset: ``fgs1;shards=8;shard_by=region,order%20id``."""
        return f"fgs1;shards={self.shards};shard_by={','.join(quote(name, safe='') for name in self.shard_by)}"

    @classmethod
    def from_metadata(cls, metadata: str | None) -> Sharding | None:
        """Read what :meth:`to_metadata` wrote; None where something else wrote the metadata."""
        found = _match(metadata)
        if found is None:
            return None
        return cls(int(found[1]), tuple(map(unquote, found[2].split(","))) if found[2] else ())


def checkpoint_in(metadata: str | None) -> str | None:
    """Return which checkpoint the progress was committed for; None where that was not known."""
    found = _match(metadata)
    return found[3] if found else None


def _match(metadata: str | None) -> re.Match[str] | None:
    return _METADATA.fullmatch((metadata or "").partition("\0")[0])  # some clients append a NUL


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a task needs to know of its batch. Picklable."""

    query: str
    """Names the consumer group of the shards' progress; the transactional ids begin with it."""
    batch_id: int
    sharding: Sharding
    progress_topic: str
    """The topic of the committed offsets: those of shard 3 are of partition 3."""
    topic: str | None
    """The topic of rows that name none."""
    producer: Mapping[str, Any] = field(repr=False)
    """librdkafka's properties, which may hold secrets."""
    connection: Mapping[str, Any] = field(repr=False)
    """Those of them that a consumer needs to reach the same brokers."""
    stable_offsets: bool
    """Whether every broker holds back the offsets of open transactions (OffsetFetch 7)."""
    timeout: float
    """Seconds that a call may take."""
    checkpoint: str | None = None
    """The id that the checkpoint gives to Spark's query; None where Spark does not show it, as on Spark Connect."""

    @property
    def metadata(self) -> str:
        """What is committed with the progress of each shard."""
        checkpoint = f";checkpoint={self.checkpoint}" if self.checkpoint else ""
        return self.sharding.to_metadata() + checkpoint

    @property
    def transaction_timeout(self) -> float:
        """Seconds after which the coordinator aborts a transaction."""
        return int(self.producer.get(_TRANSACTION_TIMEOUT, _TRANSACTION_TIMEOUT_MS)) / 1000


class Shard(NamedTuple):
    """One shard of a batch."""

    batch: Batch
    number: int

    @property
    def transactional_id(self) -> str:
        """The same for each batch and each attempt (P6)."""
        return f"{self.batch.query}-{self.number}"

    def __str__(self) -> str:
        batch = self.batch
        return f"shard {self.number} of {batch.sharding.shards} of query {batch.query!r}, batch {batch.batch_id}"
