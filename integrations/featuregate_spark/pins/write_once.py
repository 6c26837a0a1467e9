"""Write-once files in a query's checkpoint: the first writer wins, and all others read what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from featuregate_spark.errors import PinError
from featuregate_spark.session_kind import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_spark.pins.hadoop import HadoopFiles


WriteOnceFiles: TypeAlias = "HadoopFiles | DataFrameFiles"
"""The files of a checkpoint folder. Names are relative to it: ``featuregate/pin-5``."""


def open_files(spark: SparkSession, checkpoint: str) -> WriteOnceFiles:
    """Return the write-once files of a checkpoint, for the kind of this session."""
    if is_classic(spark):
        from featuregate_spark.pins.hadoop import HadoopFiles  # noqa: PLC0415 - it needs py4j

        return HadoopFiles(spark, checkpoint)
    return DataFrameFiles(spark, checkpoint)


_NO_PATH: Final = "PATH_NOT_FOUND"
_END: Final = "\u001e"


class DataFrameFiles:
    """Files of any file system that the server of the session reaches: Spark Connect gives no access to these.

    Each file is a folder with one text file, which Spark's own committer makes visible as a whole. Unlike a rename this
    does not keep two drivers apart that write the same file at the same moment: it relies on Spark's rule of one driver
    for a checkpoint. A driver that dies while it writes leaves an empty folder, which the next driver writes again.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.checkpoint = checkpoint.rstrip("/")
        self._spark = spark

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is no such file."""
        rows = self._texts(name)
        return rows[0][0] if rows else None

    def write(self, name: str, text: str) -> str:
        """Write a file unless it exists; return the text that it has then."""
        found = self.read(name)
        if found is not None:
            return found
        frame = self._spark.createDataFrame([(text,)], ["value"])
        # Each line would be a record otherwise, and lose its own line ending.
        frame.coalesce(1).write.mode("overwrite").option("lineSep", _END).text(self._path(name))
        found = self.read(name)
        if found is None:
            raise PinError(
                f"{self._path(name)} was written, and has disappeared: does another process clean the folder?"
            )
        return found

    def names(self, folder: str) -> list[str]:
        """Return the names of the files of a folder; none if there is no such folder."""
        return sorted({path.rpartition("/")[0].rpartition("/")[2] for _, path in self._texts(f"{folder}/*")})

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        return bool(self._texts(name))

    def delete(self, name: str) -> None:
        """Do nothing: a DataFrame cannot delete files, and a pin takes some kilobytes."""

    def _texts(self, name: str) -> list[tuple[str, str]]:
        """Read all files that match a name or a pattern; return text and path of each."""
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - executors load this module without a session
        from pyspark.sql import functions  # noqa: PLC0415 - see above

        try:
            found = self._spark.read.text(self._path(name), wholetext=True)
            rows = found.select("value", functions.col("_metadata.file_path")).collect()
        except AnalysisException as error:
            if error.getCondition() == _NO_PATH:
                return []
            raise
        return [(str(row[0]).removesuffix(_END), str(row[1])) for row in rows]

    def _path(self, name: str) -> str:
        return f"{self.checkpoint}/{name}"
