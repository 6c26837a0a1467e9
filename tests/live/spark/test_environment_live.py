"""What a real Spark runs with."""

import pyspark
import pytest
from pyspark.sql import SparkSession

from featuregate_spark.environment import environment_of

pytestmark = [pytest.mark.proof("spark"), pytest.mark.live]


def test_the_environment_of_a_spark_that_fits(spark: SparkSession) -> None:
    """The connector is that of the classpath, and a worker has imported featuregate."""
    found = environment_of(spark)
    assert found.spark == pyspark.__version__
    assert found.connector in {pyspark.__version__, None}
    assert found.problems == ()
