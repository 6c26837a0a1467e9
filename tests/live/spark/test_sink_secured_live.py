"""The Kafka sink on a cluster that wants TLS and SASL, of which the session knows what Spark's options say."""

from pathlib import Path

import pytest
from eos.pipes import BOUND, Pipe
from java_stores import java_client, trust_store
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from topics import committed_values

from featuregate.testing import LocalKafka
from featuregate_spark import FeatureSession

pytestmark = [pytest.mark.proof("sink"), pytest.mark.live, pytest.mark.slow]


def test_a_sink_inherits_the_security_of_its_session(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks and the driver write as the session's user, and need no file of the driver."""
    with LocalKafka("4.2.0", security="SASL_SSL", sasl_mechanism="SCRAM-SHA-512") as kafka:
        store = trust_store(tmp_path / "trust.jks", "changeit", Path(str(kafka.client_config()["ssl.ca.location"])))
        trust = {"ssl.truststore.location": str(store), "ssl.truststore.password": "changeit"}
        options = {f"kafka.{name}": value for name, value in java_client(kafka, trust).items()}
        pipe = Pipe.on(kafka, "secured", partitions=2)
        rows = spark.range(20).select(f.col("id").cast("string").alias("value"))
        with FeatureSession(spark, options, wait=BOUND) as features:
            sink = features.kafka_sink(pipe.group, pipe.sink, shards=2)
            store.unlink()
            for batch_id in range(2):  # the driver writes the second one
                sink(rows, batch_id)
        assert committed_values(kafka.client_config(), pipe.sink, partitions=2) == sorted(
            str(number).encode() for number in range(20) for _ in range(2)
        )
