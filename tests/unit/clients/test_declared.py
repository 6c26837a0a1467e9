"""Clients by the names and versions of packages."""

import sys
from pathlib import Path

import pytest

import featuregate as fg
from featuregate.clients.declared import client
from featuregate.errors import ConfigError


@pytest.mark.parametrize("version", ["3.4.0-1.20", "1.14.6"])
def test_the_connectors_of_flink_bring_a_java_client(version: str):
    """The table has the client of each from its pom."""
    found = client("flink-connector-kafka", version)
    assert found.library is not None
    assert found.library[0] == "kafka-clients"


@pytest.mark.parametrize(
    "version", ["2.x", "2.X.1", "2.x-a", "3.+", "3.*", "^2.1", "~2.1", ">=2", "latest", "", "2.", "x", "v"]
)
def test_what_stands_for_several_versions_is_none(version: str):
    """It is not the release with the same first numbers."""
    assert client("kafkajs", version).version == ""


@pytest.mark.parametrize(
    "version", ["2.2.4", "v2.2.4", "1.4.2-dirty", "2.6.1rc1", "1.0.dev3", "2.6.1+cu1", "7.6.0-ccs", "99", "v24.8.1.1"]
)
def test_one_version_may_have_any_suffix(version: str):
    """As clients report theirs."""
    assert client("unheard-of", version).version == version


def test_another_interpreter_lists_its_packages():
    """Its environment counts, not that of this process."""
    assert fg.clients.installed(sys.executable) == tuple(
        fg.clients.declared.python_packages(
            {each.name: each.version for each in fg.clients.installed()}, sys.executable
        )
    )
    with pytest.raises(ConfigError, match="does not start: No such file"):
        fg.clients.installed("/nowhere/python")
    with pytest.raises(ConfigError, match="does not list its packages"):
        fg.clients.installed("/bin/false")
    with pytest.raises(ConfigError, match="does not list its packages: is it an interpreter of Python"):
        fg.clients.installed("/bin/echo")


def test_no_module_of_the_folder_at_hand_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps have modules such as email.py, which the standard library would import."""
    (tmp_path / "email.py").write_text("raise SystemExit('not one of the standard library')")
    monkeypatch.chdir(tmp_path)
    assert fg.clients.installed(sys.executable)


def test_what_may_be_a_client_by_its_name_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a requirements file: it was not measured, so that nobody knows whether it works."""
    for name in ("confluent_kafka_pypy", "types_confluent_kafka", "dagster_kafka"):
        (folder := tmp_path / f"{name}-1.9.2.dist-info").mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.9.2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for where in (None, sys.executable):
        *_, last = found = fg.clients.installed(where)
        assert (last.name, last.version) == ("confluent-kafka-pypy", "1.9.2")
        assert {each.name for each in found}.isdisjoint({"types-confluent-kafka", "dagster-kafka"})
        assert fg.clients.fit("4.2", [last])[0].verdict == "unknown"


def test_a_package_that_was_removed_half_way_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is left, and stops no other client. What a start-up file prints is no list."""
    (tmp_path / "aiokafka-0.12.0.dist-info").mkdir()
    (broken := tmp_path / "somebody_elses-1.0.dist-info").mkdir()
    (broken / "METADATA").write_bytes(b"Name: somebody-elses\nAuthor: \xff\n")  # which is not UTF-8
    (tmp_path / "sitecustomize.py").write_text("print('hello')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for found in (fg.clients.installed(), fg.clients.installed(sys.executable)):
        versions = {each.name: each.version for each in found}
        assert versions["aiokafka"] == ""
        assert versions["confluent-kafka"]
