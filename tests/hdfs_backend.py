"""The backend of ``hdfs://`` without libraries of Hadoop, which `make proof` installs."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def of_hdfs_native() -> Iterator[None]:
    """Use the backend, where it is installed, and let go of its client at the end.

    In a child that Python forks fsspec drops the clients that it keeps, and this one then waits for threads that the
    child does not have: each test after this one that forks would stand still.
    """
    backend = pytest.importorskip("hdfs_native.fsspec")
    try:
        yield
    finally:
        backend.HdfsFileSystem.clear_instance_cache()
