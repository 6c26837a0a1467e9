"""A name node and a data node of HDFS, as Hadoop's own tests start them."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from featuregate.jars.maven import Download, cache_folder, fetched
from featuregate.testing.local_kafka.java import find_java
from featuregate.testing.local_kafka.processes import ProcessGroup, wait_until

HADOOP = "3.4.1"
"""The release in PySpark 4.0, whose jars have the half of it that this one lacks."""
JARS = (f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP}", "junit:junit:4.13.2", "javax.xml.bind:jaxb-api:2.3.1")
"""Java has no JAXB since 11, and without it the name node answers requests of webhdfs with 500, and then with 404."""
MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
WITHIN = 120


class Hdfs(NamedTuple):
    rpc: str
    """``host:port`` of ``hdfs://``."""
    http: str
    """``host:port`` of ``webhdfs://``."""


@contextmanager
def hdfs_cluster() -> Iterator[Hdfs]:
    jars = fetched(Download(f"Hadoop {HADOOP} for tests", JARS, None), cache_folder() / "hdfs" / f"{HADOOP}-jaxb")
    processes = ProcessGroup("hdfs")
    try:
        settings = processes.folder / "settings.xml"
        options = ["-nomr", "-format", "-datanodes", "1", "-writeConfig", settings]
        places = f"{jars}/*:{pyspark.__path__[0]}/jars/*"
        java = [find_java(), f"-Dtest.build.data={processes.folder}", "-cp", places, MAIN]
        child = processes.start([*java, *options], log=processes.folder / "log")
        wait_until(lambda: _is_whole(settings), "HDFS has started", {"HDFS": child}, timeout=WITHIN)
        found = {each.findtext("name"): each.findtext("value") or "" for each in ET.parse(settings).iter("property")}
        yield Hdfs(found["fs.defaultFS"].removeprefix("hdfs://"), found["dfs.namenode.http-address"])
    finally:
        processes.close()


def _is_whole(settings: Path) -> bool:
    return settings.exists() and settings.read_text().rstrip().endswith("</configuration>")
