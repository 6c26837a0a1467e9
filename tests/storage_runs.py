"""A program that reads logs into tables at several places with one Spark, and prints what each place has in the end."""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet_lines import document, line_of

from featuregate_fleet import Fleet
from featuregate_fleet.evidence.columns import KINDS
from featuregate_fleet.files.storage import on_s3, storage_path
from featuregate_fleet.runs.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_logs(logs: Path, number: int) -> None:
    """Hand in a set of files: of two brokers, compressed, damaged, and with lines that are not understood."""
    texts = {}
    for broker in ("1", "2"):
        lines = [line_of(document(clientId=f"client-{number}", requestApiVersion=each % 17)) for each in range(200)]
        lines.insert(7, "garbage \xff")
        texts[f"{broker}/{number} é%20.log"] = "".join(f"{line}\n" for line in lines).encode("latin-1")
    texts[f"2/{number}.log.gz"] = gzip.compress(texts[f"2/{number} é%20.log"].replace(b"client-", b"packed-"))
    texts[f"1/damaged-{number}.log.gz"] = texts[f"2/{number}.log.gz"][:-9]
    for name, text in texts.items():
        path = logs / name
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def runs_at(spark: SparkSession, place: dict[str, str]) -> dict[str, Any]:
    """Read the logs that are there, then more of them, then none, and remove all usage; return what the tables have."""
    logs = place.pop("logs")
    fleet = Fleet(spark, cluster="c", **place)
    counts = [fleet.ingest(logs)]
    write_logs(storage_path("logs", logs), 1)
    counts += [fleet.ingest(logs), fleet.ingest(logs)]
    fleet.tidy(yes=True)
    report = fleet.readiness(to="4.2", min_hours=0)
    found = {
        "totals": [each.totals for each in counts],
        "missing": [sorted(each.missing) for each in counts[1:]],  # a run that was killed has named those before
        "rows": {kind: fleet.table(kind).count() for kind in KINDS},
        "findings": sorted([row.check, row.verdict, row.subject, row.why] for row in report.findings),
    }
    removed = fleet.tidy(older_than=1, yes=True)
    unused = files_of(spark, fleet._table.name) - (removed.files_after or 0)
    return found | {"removed": removed.deleted, "left": fleet.usage().count(), "unused": unused}


def files_of(spark: SparkSession, table: str) -> int:
    """Return how many files of rows are in the folder of a table, of all its versions."""
    location = spark.sql(f"describe detail {table}").collect()[0]["location"]
    files = spark.read.format("binaryFile").options(recursiveFileLookup="true", pathGlobFilter="*.parquet")
    return files.load(location).count()


def main(places: list[dict[str, str]]) -> None:
    warnings.simplefilter("ignore", ResourceWarning)
    paths = [storage_path("logs", place["logs"]) for place in places]
    with local_session(topics=False, s3=on_s3(*paths)) as spark:
        spark.sql("create schema kafka")
        for place in places:
            print(json.dumps(runs_at(spark, place)), flush=True)  # noqa: T201 - its result


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
