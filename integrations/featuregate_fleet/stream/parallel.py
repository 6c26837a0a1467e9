"""Work on several clusters at a time, in one Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Final, TypeVar

from featuregate_fleet.stream.session_end import require_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")
_POOL: Final = "spark.scheduler.pool"


def in_parallel(
    spark: SparkSession,
    work: Mapping[str, Callable[[], _Result]],
    most: int,
    expected: tuple[type[Exception], ...],
) -> Iterator[tuple[str, _Result | Exception]]:
    """Do the work of each cluster, for this many at a time, and yield each result or expected error once it is there.

    The jobs of a cluster are in a pool of their own of Spark's fair scheduler, so that those of a large cluster do not
    keep a small one waiting. An error that is not expected is raised once the others are done.
    """

    def of_cluster(name: str) -> _Result:
        spark.sparkContext.setLocalProperty(_POOL, name)
        return work[name]()

    executor = ThreadPoolExecutor(min(most, len(work)), thread_name_prefix="featuregate-fleet")
    try:
        names = {executor.submit(of_cluster, name): name for name in work}
        for future in as_completed(names):
            error = future.exception()
            if isinstance(error, OSError):  # in PySpark that of a JVM which has ended, too, and then for all clusters
                require_running(spark)
            yield names[future], error if isinstance(error, expected) else future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)  # the session that is stopped next ends their jobs
