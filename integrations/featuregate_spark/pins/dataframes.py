"""Write-once files through DataFrames, for Spark Connect, where no file system is at hand.

Each is a folder with one text file in it, which Spark's own committer makes visible at once, or not at all. That two
drivers write the same one in the same moment is not excluded, as it is by a rename: Spark allows one driver for a
checkpoint, and that is relied upon here. A driver that dies while it writes leaves a folder without a text, which the
next one writes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate_spark.errors import PinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DataFrameFiles"]

_NO_PATH: Final = "PATH_NOT_FOUND"
_END: Final = "\u001e"


class DataFrameFiles:
    """Files of whatever file system the server of a session reaches."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.checkpoint = checkpoint.rstrip("/")
        self._spark = spark

    def read(self, name: str) -> str | None:
        """Return what is there, None where nothing is."""
        rows = self._texts(name)
        return rows[0][0] if rows else None

    def write(self, name: str, text: str) -> str:
        """Write it where nothing is there yet; return what is there then."""
        there = self.read(name)
        if there is not None:
            return there
        frame = self._spark.createDataFrame([(text,)], ["value"])
        # A line would be one record: the text keeps its own ends of lines.
        frame.coalesce(1).write.mode("overwrite").option("lineSep", _END).text(self._path(name))
        there = self.read(name)
        if there is None:
            raise PinError(f"{self._path(name)} was written, and is not there: does somebody clean the folder?")
        return there

    def names(self, folder: str) -> list[str]:
        """Name the files of a folder; none where there is no such folder."""
        return sorted({path.rpartition("/")[0].rpartition("/")[2] for _, path in self._texts(f"{folder}/*")})

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        return bool(self._texts(name))

    def delete(self, name: str) -> None:
        """Leave it: without a file system at hand nothing can be deleted, and a pin takes some kilobytes."""

    def _texts(self, name: str) -> list[tuple[str, str]]:
        """Read all files of a name, which may be a pattern: text, and path."""
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
