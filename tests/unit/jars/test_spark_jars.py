"""The class path of a local Spark: jars that are at hand, and what to do where none can be had."""

from pathlib import Path

import pytest

from featuregate.errors import ConfigError, LocalKafkaError
from featuregate.jars.maven import CACHE, known_sums
from featuregate.jars.spark import FOLDER, class_path
from featuregate.jars.spark_lines import LINES, connector_names, connector_package, delta_names, line_of

CONNECTOR = {names[0] for names in connector_names("4.0.0")}
DELTA = {names[-1] for names in delta_names("4.0.0")}


def put(folder: Path, spark: str) -> Path:
    """Put all jars of a Spark into a folder, as the table names them."""
    line = LINES[".".join(spark.split(".")[:2])]
    for coordinate in (*line.delta_jars(), *line.connector_jars(), *line.s3_jars()):
        _, name, version = coordinate.split(":")
        (folder / f"{name}-{version}.jar").touch()
    return folder


def test_jars_at_hand_are_taken_from_the_option_or_from_the_environment(tmp_path: Path) -> None:
    """The option wins."""
    folder = put(tmp_path, "4.0.0")
    assert class_path("4.0.0", folder, {FOLDER: "/elsewhere"}, topics=True) == f"{folder}/*"
    assert class_path("4.0.0", None, {FOLDER: str(folder)}, topics=True) == f"{folder}/*"


@pytest.mark.parametrize("begin", sorted(DELTA | CONNECTOR))
def test_a_folder_that_lacks_a_jar_is_refused_by_its_name(tmp_path: Path, begin: str) -> None:
    """Spark would say it in a hundred lines, and late. The connector is needed only where topics are read."""
    folder = put(tmp_path, "4.0.0")
    next(folder.glob(f"{begin}*")).unlink()
    with pytest.raises(LocalKafkaError, match=rf"the folder of jars .* has no .*{begin}\*\.jar, which Spark 4\.0\.0"):
        class_path("4.0.0", folder, {}, topics=True)
    if begin in CONNECTOR:
        assert class_path("4.0.0", folder, {}, topics=False) == f"{folder}/*"


def test_jars_for_s3_are_needed_only_for_tables_or_logs_there(tmp_path: Path) -> None:
    """Spark has none of them."""
    folder = put(tmp_path, "4.0.0")
    assert class_path("4.0.0", folder, {}, topics=False, s3=True) == f"{folder}/*"
    next(folder.glob("hadoop-aws*")).unlink()
    assert class_path("4.0.0", folder, {}, topics=False) == f"{folder}/*"
    with pytest.raises(LocalKafkaError, match=r"has no hadoop-aws-\*\.jar, which Spark 4\.0\.0 needs"):
        class_path("4.0.0", folder, {}, topics=False, s3=True)


@pytest.mark.parametrize(
    ("spark", "other"), [("4.0.0", "4.1.1"), ("4.1.1", "4.0.0"), ("3.5.9", "4.0.0"), ("4.2.1", "4.1.4")]
)
def test_jars_of_another_line_are_refused(tmp_path: Path, spark: str, other: str) -> None:
    """Delta Lake for another line of Spark may load, and fail later."""
    with pytest.raises(LocalKafkaError, match=r"has no .*delta-spark"):
        class_path(spark, put(tmp_path, other), {}, topics=True)


def test_the_newer_name_of_delta_lake_is_taken(tmp_path: Path) -> None:
    """From 4.1 on it names the line of Spark, also for 4.0 and for lines that the table does not know."""
    for spark, jar in {"4.0.0": "delta-spark_4.0_2.13-4.4.0.jar", "5.0.0": "delta-spark_5.0_2.13-5.1.0.jar"}.items():
        (tmp_path / jar).touch()
        (tmp_path / "delta-storage-4.4.0.jar").touch()
        assert class_path(spark, tmp_path, {}, topics=False) == f"{tmp_path}/*"


def test_the_uri_of_a_storage_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the name of a folder below the current one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="FEATUREGATE_JARS: is a URI"):
        class_path("4.0.0", None, {FOLDER: "s3a://lake/jars"}, topics=False)
    monkeypatch.setenv(CACHE, "dbfs:/cache")
    with pytest.raises(ConfigError, match="FEATUREGATE_CACHE: is a URI"):
        class_path("4.0.0", None, {}, topics=False)
    assert [*tmp_path.iterdir()] == []


def test_jars_that_cannot_be_had_name_every_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option, the environment, a mirror, and spark-submit."""
    pytest.importorskip("jgo")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEATUREGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / ".jgorc").write_text("[repositories]\nmirror = http://127.0.0.1:1/maven2\n")
    with pytest.raises(LocalKafkaError, match=r"could not download Delta Lake 4\.0\.0 .*--jars, or FEATUREGATE_JARS"):
        class_path("4.0.0", None, {}, topics=False)


def test_a_spark_that_nobody_has_published_jars_for_is_named() -> None:
    """4.3 has neither Delta Lake nor a connector."""
    with pytest.raises(LocalKafkaError, match=r"there is no Delta Lake for Spark 4\.3\.0.*--jars, or FEATUREGATE_JARS"):
        class_path("4.3.0", None, {}, topics=False)


def test_each_jar_of_the_table_has_a_checksum() -> None:
    """A mirror cannot serve another file in its place."""
    jars = {
        coordinate
        for line in LINES.values()
        for coordinate in (*line.delta_jars(), *line.connector_jars(), *line.s3_jars())
    }
    assert {f"{name}-{version}.jar" for _, name, version in (jar.split(":") for jar in jars)} == known_sums().keys()


def test_packages_name_a_connector_of_the_line_that_can_be_had() -> None:
    """Only 3.5 is built with Scala 2.12. A line that is not known has the number of its Spark."""
    assert connector_package("3.5.9") == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
    assert connector_package("4.2.1") == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    assert connector_package("4.9.3") == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.9.3"
    assert connector_package("4.3.0") is None
    assert line_of("4.10.0") == line_of("4.3.0")
