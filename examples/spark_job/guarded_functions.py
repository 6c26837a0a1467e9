"""A batch job whose tasks all take the same path, whatever the cluster becomes while they run.

spark-submit --py-files featuregate.zip guarded_functions.py --bootstrap localhost:9092
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from featuregate_spark import FeatureSession


def old_path(number: int) -> str:
    """Process a number the old way."""
    return f"{number} the old way"


def new_path(number: int) -> str:
    """Process a number as the new cluster allows."""
    return f"{number} the new way"


def main() -> None:
    """Show each form once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True, help="host:port of some brokers")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("guarded functions").getOrCreate()
    numbers = spark.range(4)
    with FeatureSession(
        spark, args.bootstrap, gates={"tv2": "transaction.version>=2"}
    ) as features:
        snapshot = features.snapshot()

        # A udf, chosen here: what travels is one of the two functions, and no row asks
        # again.
        chosen = udf(snapshot.guard("tv2", fallback=old_path)(new_path))
        print(numbers.select(chosen("id")).first())

        # The same by hand: the function closes over the snapshot, which is a small
        # value.
        def by_hand(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            path = new_path if snapshot["tv2"].open else old_path
            for part in parts:
                yield pd.DataFrame(
                    {"said": part["id"].map(path), "epoch": snapshot.epoch}
                )

        print(numbers.mapInPandas(by_hand, "said string, epoch long").first())
    spark.stop()


if __name__ == "__main__":
    main()
