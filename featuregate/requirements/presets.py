"""Presets: requirements with a name, each with its sources and its limits.

``featuregate.presets.kip447`` is a requirement like any other: give it to a gate, combine it with ``&`` and ``|``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from featuregate.requirements.handles import Api, Config, Feature
from featuregate.requirements.language import Named, Requirement
from featuregate.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset(Named):
    """A requirement with a name."""

    name: str
    title: str
    """What an app may use where the requirement holds."""
    requirement: Requirement
    note: str
    """What the requirement does not prove, and what else an app needs."""
    sources: tuple[str, ...]
    """The KIP, and the place in Apache Kafka."""

    @property
    def clients(self) -> Mapping[str, str]:
        """What the client must be: the oldest release of each client that was seen to use it, on the newest brokers.

        Empty for a preset that was not measured. The requirement is about brokers: a client must have it, too.
        """
        steps = _MEASURED_BY.get(self.name)
        return _oldest_that_does(steps) if steps else {}

    @property
    def ready(self) -> Mapping[str, str]:
        """The first release of a client whose makers call it ready for production, where `clients` has an older one.

        It is from the notes of that release: no call shows what its makers think of it.
        """
        return _READY.get(self.name, {})


_MEASURED_BY: Final = {"kip848": ("kip848", "kip848-describe"), "kip932": ("share",), "zstd": ("zstd",)}
"""The steps of the table of clients that use what a preset is about."""
_READY: Final[Mapping[str, Mapping[str, str]]] = {
    "kip848": {"confluent-kafka": "2.12.0", "kafka-clients": "4.0.0"},
    "kip932": {"kafka-clients": "4.2.0"},
}


kip447 = Preset(
    name="kip447",
    title="Exactly-once with one transactional producer for each process, instead of one for each input partition",
    requirement=(Api("TxnOffsetCommit") >= 3) & (Api("OffsetFetch") >= 7) & (Api("AddOffsetsToTxn") >= 0),
    note=(
        "On an older broker librdkafka and kafka-python drop the group metadata without an error, and a zombie's "
        "commit is accepted. The client must itself send TxnOffsetCommit v3, with the metadata of a group that it "
        "subscribed to, and read committed offsets with isolation.level=read_committed. Members that still use one "
        "producer for each partition and give no group metadata must not share the group. It does not need "
        "transaction.version."
    ),
    sources=("KIP-447", "TxnOffsetCommitRequest.java: minimum supported version 3, brokers on 2.5 or above"),
)

kip848 = Preset(
    name="kip848",
    title="The consumer group protocol that the broker drives (group.protocol=consumer)",
    requirement=(
        (Feature("group.version") >= 1)
        & (Api("ConsumerGroupHeartbeat") >= 0)
        & Config("group.coordinator.rebalance.protocols").has("consumer")
    ),
    note=(
        "Brokers advertise the API whether or not the protocol is on. To tell their configs they ask for "
        "DESCRIBE_CONFIGS on the cluster; without it the preset is unknown. Where 'consumer' is missing, the first "
        "heartbeat fails with UNSUPPORTED_VERSION. Brokers without the config (5.0 removes it, KIP-1237) have the "
        "protocol on, and the level decides. In confluent-kafka and librdkafka it was a preview before 2.12."
    ),
    sources=("KIP-848", "KIP-1237", "KafkaApis.scala: isConsumerGroupProtocolEnabled", "GroupVersion.java"),
)

kip890 = Preset(
    name="kip890",
    title="Transactions that the broker defends by a new producer epoch each (transactions version 2)",
    requirement=(
        (Feature("transaction.version") >= 2)
        & (Api("Produce") >= 12)
        & (Api("EndTxn") >= 5)
        & (Api("TxnOffsetCommit") >= 5)
    ),
    note=(
        "Only a client with these versions benefits: the Java producer since 4.0. confluent-kafka, "
        "kafka-python and aiokafka do not, and choose their versions themselves: with them it is for information."
    ),
    sources=("KIP-890", "TransactionVersion.java", "TransactionManager.java: maybeUpdateTransactionV2Enabled"),
)

kip932 = Preset(
    name="kip932",
    title="Share groups: many consumers of one partition, with an acknowledgement for each record",
    requirement=(
        (Feature("share.version") >= 1)
        & (Api("ShareGroupHeartbeat") >= 1)
        & (Api("ShareGroupDescribe") >= 1)
        & (Api("ShareFetch") >= 1)
        & (Api("ShareAcknowledge") >= 1)
    ),
    note=(
        "Version 1 of these APIs is the first stable one; the early access of 4.0 spoke 0, which 4.1 dropped. "
        "Brokers advertise the APIs whether or not the feature is on. Their group.coordinator.rebalance.protocols does "
        "not matter (seen: 4.2.0). The client must have share consumers: those of confluent-kafka are a preview. A "
        "share group needs a group.id of its own, and begins at the end of a topic unless its config share.auto.offset."
        "reset says otherwise."
    ),
    sources=("KIP-932", "ShareVersion.java", "ShareFetchRequest.json: validVersions"),
)

kip1071 = Preset(
    name="kip1071",
    title="The streams group protocol that the broker drives (group.protocol=streams of Kafka Streams)",
    requirement=(
        (Feature("streams.version") >= 1)
        & (Api("StreamsGroupHeartbeat") >= 0)
        & Config("group.coordinator.rebalance.protocols").has("streams")
    ),
    note=(
        "Brokers advertise the API whether or not the protocol is on. To tell their configs they ask for "
        "DESCRIBE_CONFIGS on the cluster; without it the preset is unknown. Brokers without the config (5.0 removes "
        "it, KIP-1237) have the protocol on, and the level decides. On 4.2.0 a streams group that was a classic group "
        "may not load after its coordinator has restarted or moved (KAFKA-20254): 4.2.1 mends it."
    ),
    sources=("KIP-1071", "KIP-1237", "KAFKA-20254", "StreamsVersion.java"),
)

zstd = Preset(
    name="zstd",
    title="Records compressed with zstd",
    requirement=(Api("Produce") >= 7) & (Api("Fetch") >= 10),
    note=(
        "Every consumer of the topic must understand zstd as well: a broker refuses to give such records to a "
        "Fetch below version 10. A topic's own compression.type may recompress them."
    ),
    sources=("KIP-110", "ProduceRequest.json: version 7", "FetchRequest.json: version 10"),
)

_ALL = (kip447, kip848, kip890, kip932, kip1071, zstd)


def all() -> tuple[Preset, ...]:  # noqa: A001 - reads as presets.all()
    """Return every preset."""
    return _ALL


def by_name(name: str) -> Preset | None:
    """Return the preset of this name, None if there is none."""
    return next((preset for preset in _ALL if preset.name == name), None)


def _oldest_that_does(steps: Sequence[str]) -> dict[str, str]:
    """Return for each client the oldest release from which on these steps work on the newest measured brokers."""
    from featuregate.catalog.clients import client_rows, measured_clients  # noqa: PLC0415 - loads the table

    found: dict[str, str] = {}
    for client in measured_clients():
        for row in reversed([row for row in client_rows(client) if row.brokers]):
            newest = list(row.brokers.values())[-1].steps
            if any(step not in newest or newest[step].fate != "works" for step in steps):
                break
            found[client] = row.version
    return found
