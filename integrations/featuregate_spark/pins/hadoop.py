"""Write-once files through Hadoop's ``FileContext``, which Spark uses for its own checkpoint.

It reaches local disks, HDFS, and object stores through their connectors. It needs the JVM.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from featuregate_spark.errors import PinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_FOUND: Final = "java.io.FileNotFoundException"
_EXISTS: Final = "org.apache.hadoop.fs.FileAlreadyExistsException"


class HadoopFiles:
    """Files of any file system that Hadoop supports.

    A file is written under another name and then renamed without overwriting. So no reader sees half of a file, and of
    two writers the second learns that it came second.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public access to Hadoop's file systems
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - see above
        self._fs: Any = java.org.apache.hadoop.fs
        self._root = self._fs.Path(checkpoint)
        with _java_errors_of(f"the checkpoint {checkpoint}"):
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
        """Return the text of a file; None if there is no such file."""
        with _java_errors_of(f"{self.checkpoint}/{name}"):
            try:
                stream = self._files.open(self._path(name))
            except Py4JJavaError as error:
                if _class_name(error) == _NOT_FOUND:
                    return None
                raise
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    def write(self, name: str, text: str) -> str:
        """Write a file unless it exists; return the text that it has then."""
        folder, _, file = name.rpartition("/")
        temporary = self._path(f"{folder}/.{file}.{uuid.uuid4().hex}.tmp")
        with _java_errors_of(f"{self.checkpoint}/{name}"):
            stream = self._files.create(temporary, self._new, self._parents)
            try:
                stream.write(bytearray(text.encode()))
                stream.hsync()
            finally:
                stream.close()
            try:
                self._files.rename(temporary, self._path(name), self._only_new)
            except Py4JJavaError as error:
                with suppress(Py4JJavaError):
                    self._files.delete(temporary, False)  # noqa: FBT003 - Java has no names for arguments
                if _class_name(error) != _EXISTS:
                    raise
        text_now = self.read(name)
        if text_now is None:
            raise PinError(
                f"{self.checkpoint}/{name} was written, and has disappeared: does another process clean the folder?"
            )
        return text_now

    def names(self, folder: str) -> list[str]:
        """Return the names of the files of a folder; none if there is no such folder."""
        with _java_errors_of(f"{self.checkpoint}/{folder}"):
            try:
                found = self._files.listStatus(self._path(folder))
                names = []
                while found.hasNext():
                    names.append(str(found.next().getPath().getName()))
            except Py4JJavaError as error:
                if _class_name(error) == _NOT_FOUND:
                    return []
                raise
            return names

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        with _java_errors_of(f"{self.checkpoint}/{name}"):
            return bool(self._files.util().exists(self._path(name)))

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        with _java_errors_of(f"{self.checkpoint}/{name}"):
            self._files.delete(self._path(name), False)  # noqa: FBT003 - Java has no names for arguments

    def _path(self, name: str) -> Any:
        return self._fs.Path(self._root, name)


@contextmanager
def _java_errors_of(what: str) -> Iterator[None]:
    """Raise an error of Java as a PinError of one line."""
    try:
        yield
    except Py4JJavaError as error:
        text = str(error.java_exception.toString()).partition("\n")[0]
        raise PinError(f"{what}: {text}") from error


def _class_name(error: Any) -> str:
    return str(error.java_exception.getClass().getName())
