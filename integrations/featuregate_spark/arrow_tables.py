"""Tables of Arrow to and from DataFrames, also with PySpark 3.5, which has no public way."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from featuregate_spark.errors import WrongSession
from featuregate_spark.session_kind import is_classic

_PUBLIC: Final = hasattr(DataFrame, "toArrow")  # from PySpark 4.0 on


def to_arrow(rows: DataFrame) -> pa.Table:
    """Collect the rows of a DataFrame. Raises WrongSession (this is Spark Connect of PySpark 3.5)."""
    if _PUBLIC:
        return rows.toArrow()
    if not is_classic(rows.sparkSession):
        raise WrongSession("Spark Connect of PySpark 3.5 cannot collect Arrow tables: use PySpark 4.0 or newer")
    private: Any = rows
    return pa.Table.from_batches(private._collect_as_arrow(), to_arrow_schema(rows.schema))  # noqa: SLF001 - see above


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a DataFrame with the rows of a table."""
    if _PUBLIC:
        return spark.createDataFrame(table)
    return spark.createDataFrame(table.to_pylist(), from_arrow_schema(table.schema))
