"""Write-once files through Hadoop's ``FileContext``, as Spark's own checkpoint is written.

It reaches whatever Spark reaches, local disks, HDFS and object stores by their connectors, and needs the JVM at hand.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from featuregate_spark.errors import PinError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["HadoopFiles"]

_NOT_FOUND: Final = "java.io.FileNotFoundException"
_THERE: Final = "org.apache.hadoop.fs.FileAlreadyExistsException"


class HadoopFiles:
    """Files of any file system that Hadoop knows.

    A file is written under another name and then renamed without overwriting, so that nobody reads half of one, and
    of two writers one is told that it came second.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        java: Any = spark._jvm  # noqa: SLF001 - PySpark offers no public way to Hadoop's file systems
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - see above
        self._fs: Any = java.org.apache.hadoop.fs
        self._root = self._fs.Path(checkpoint)
        with _told(f"the checkpoint {checkpoint}"):
            configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - see above
            qualified = self._root.getFileSystem(configuration).makeQualified(self._root)
            self._root = qualified
            self._files = self._fs.FileContext.getFileContext(qualified.toUri(), configuration)
        flags = self._fs.CreateFlag
        self._new = java.java.util.EnumSet.of(flags.CREATE, flags.OVERWRITE)
        self._parents = gateway.new_array(self._fs.Options.CreateOpts, 1)
        self._parents[0] = self._fs.Options.CreateOpts.createParent()
        self._only_new = gateway.new_array(self._fs.Options.Rename, 1)
        self._only_new[0] = getattr(self._fs.Options.Rename, "NONE")  # noqa: B009 - None's look-alike

    def read(self, name: str) -> str | None:
        """Return what is there, None where nothing is."""
        with _told(f"{self.checkpoint}/{name}"):
            try:
                stream = self._files.open(self._path(name))
            except Py4JJavaError as error:
                if _kind(error) == _NOT_FOUND:
                    return None
                raise
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write(self, name: str, text: str) -> str:
        """Write it where nothing is there yet; return what is there then."""
        folder, _, file = name.rpartition("/")
        beside = self._path(f"{folder}/.{file}.{uuid.uuid4().hex}.tmp")
        with _told(f"{self.checkpoint}/{name}"):
            stream = self._files.create(beside, self._new, self._parents)
            try:
                stream.write(bytearray(text.encode()))
                stream.hsync()
            finally:
                stream.close()
            try:
                self._files.rename(beside, self._path(name), self._only_new)
            except Py4JJavaError as error:
                with suppress(Py4JJavaError):
                    self._files.delete(beside, False)  # noqa: FBT003 - Java has no names for arguments
                if _kind(error) != _THERE:
                    raise
        there = self.read(name)
        if there is None:
            raise PinError(f"{self.checkpoint}/{name} was written, and is not there: does somebody clean the folder?")
        return there

    def names(self, folder: str) -> list[str]:
        """Name the files of a folder; none where there is no such folder."""
        with _told(f"{self.checkpoint}/{folder}"):
            try:
                found = self._files.listStatus(self._path(folder))
                names = []
                while found.hasNext():
                    names.append(str(found.next().getPath().getName()))
            except Py4JJavaError as error:
                if _kind(error) == _NOT_FOUND:
                    return []
                raise
            return names

    def exists(self, name: str) -> bool:
        """Say whether there is such a file."""
        with _told(f"{self.checkpoint}/{name}"):
            return bool(self._files.util().exists(self._path(name)))

    def delete(self, name: str) -> None:
        """Delete a file, where it is there."""
        with _told(f"{self.checkpoint}/{name}"):
            self._files.delete(self._path(name), False)  # noqa: FBT003 - Java has no names for arguments

    def _path(self, name: str) -> Any:
        return self._fs.Path(self._root, name)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn what Java raises into one line of ours."""
    try:
        yield
    except Py4JJavaError as error:
        said = str(error.java_exception.toString()).partition("\n")[0]
        raise PinError(f"{what}: {said}") from error


def _kind(error: Any) -> str:
    return str(error.java_exception.getClass().getName())
