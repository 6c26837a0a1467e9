"""``featuregate doctor --spark``: what the Spark that this Python starts runs with."""

from __future__ import annotations

from collections.abc import Sequence

from featuregate.cli.plugin import USAGE, CommandError
from featuregate.version import how_to_install


def diagnose() -> tuple[Sequence[str], Sequence[str]]:
    """Start Spark, or use the session that runs, and return a line for each fact, and one for each problem.

    Spark reads its own configuration (``SPARK_CONF_DIR``, ``SPARK_REMOTE``, ``PYSPARK_SUBMIT_ARGS``). Raises
    CommandError (there is no PySpark).
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - the wheel has this module, and not always PySpark

        from featuregate_spark.environment import environment_of  # noqa: PLC0415 - likewise
    except ImportError as error:
        words = f"--spark needs the PySpark side: {how_to_install('spark')}"
        raise CommandError(words, USAGE) from error
    running = SparkSession.getActiveSession()
    spark = running or SparkSession.builder.appName("featuregate doctor").getOrCreate()
    try:
        found = environment_of(spark)
        return str(found).splitlines(), found.problems
    finally:
        if running is None:
            spark.stop()
