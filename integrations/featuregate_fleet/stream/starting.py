"""Starts a Spark of this machine: one line on a terminal says so, and the warnings of its JVM go to a file."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.errors import WrongSpark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_MOST: Final = 400
"""Characters of what a JVM says in the end."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit``: the JVM runs already, with the master, the jars and the settings of the command."""


def start(settings: Mapping[str, str], folder: Path) -> SparkSession:
    """Start a session, in a JVM of its own unless this process has one: that of ``spark-submit``, or an earlier one.

    A JVM of Spark warns of incubator modules, of native libraries, and of its log level before ``spark.log.level``
    counts, and Delta Lake prints how many files a vacuum has deleted. So its standard error, which its Python workers
    share, and its standard output are a file in ``folder``.

    Raises
    ------
    WrongSpark
        The JVM does not start; the text has what that file says.
    """
    if SUBMITTED not in os.environ and SparkContext._gateway is None:  # noqa: SLF001 - nothing else says so
        _start_jvm(settings, folder)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start_jvm(settings: Mapping[str, str], folder: Path) -> None:
    # Of this pipeline nothing was seen to differ with pandas 3: see the table of compatibility.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    conf = SparkConf().setAll(list(settings.items()))
    log = folder / "spark.log"
    with shown_on_a_terminal("starting Spark", lambda: "on this machine"), log.open("wb") as said:
        try:
            gateway = launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]  # PySpark has no types for it
        except PySparkRuntimeError as error:
            raise WrongSpark(f"Spark does not start: {_said(log) or error}") from error
        SparkContext(conf=conf, gateway=gateway)


def _said(log: Path) -> str:
    """Return what the launcher and the JVM have said, in one line: the cause stands first, and what follows from it."""
    lines = [line.strip() for line in log.read_text(errors="replace").split("\n")]
    return "; ".join(line for line in lines if line and not line.startswith("WARNING: "))[:_MOST]
