"""The check of a release: what it tries is what there is, and its index has this project alone."""

import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import release_check
from doc_pages import ROOT


def test_each_extra_has_a_smoke_test() -> None:
    """An extra that nothing installs could be broken when it is published."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*release_check.SMOKE} == {"", *project["optional-dependencies"]}
    named = [f"Programming Language :: Python :: {version}" for version in release_check.PYTHONS]
    assert [each for each in project["classifiers"] if " :: 3." in each] == named


def test_the_smoke_test_of_the_core_runs() -> None:
    """With fake brokers, which need no extra."""
    exec(release_check.SMOKE[""], {})


def test_the_index_serves_the_files_and_sends_pip_elsewhere_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an index of one's own that stands before the usual one."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/usual/")
    file = tmp_path / "featuregate-0.1.0.tar.gz"
    file.write_bytes(b"source")
    with release_check.index_of([file]) as url:
        assert b"featuregate-0.1.0.tar.gz" in urllib.request.urlopen(f"{url}featuregate/").read()
        assert urllib.request.urlopen(f"{url}featuregate/{file.name}").read() == b"source"
        with pytest.raises(urllib.error.URLError):  # nothing listens where it was sent
            urllib.request.urlopen(f"{url}requests/")


def test_other_bytes_are_seen(tmp_path: Path) -> None:
    """Otherwise the comparison would prove nothing."""
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)
    assert not release_check.same_bytes(tmp_path / "one", tmp_path / "other")
