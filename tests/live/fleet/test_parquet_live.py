"""Tables of plain Parquet: the same rows as in Delta Lake, with hashed principals, and nothing that changes them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from featuregate.cli import main
from featuregate.cli.plugin import UNKNOWN
from featuregate_fleet.evidence.pseudonyms import Pseudonyms
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.formats import tables_in

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]

KEY = "0123456789abcdef"


def usage(folder: Path) -> list[tuple[Any, ...]]:
    """Return who used what how often."""
    with local_session() as spark:
        rows = tables_in(spark, folder, "c").read("api_usage").collect()
    return sorted((row.client_id or "", row.client_host or "", row.api_key, row.version, row["count"]) for row in rows)


@pytest.mark.usefixtures("jvm")
def test_plain_files_have_each_row_once(
    broker_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after a lost commit and a lost checkpoint; addresses are hashed, and a run without the key is refused."""
    monkeypatch.setenv("FLEET_KEY", KEY)
    (tmp_path / "logs" / "1").mkdir(parents=True)
    shutil.copy(broker_log, tmp_path / "logs" / "1" / "first.log")
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place, "--format", "parquet", "--keep-lines"]
    hashed = [*run, "--hash-principals", "env:FLEET_KEY"]
    assert main(hashed) == 0
    found = usage(tmp_path / "tables")
    hosts = {host for _, host, *_ in found}
    assert hosts == {"", Pseudonyms(KEY.encode()).of("127.0.0.1")}
    for lost in (tmp_path / "tables" / "_checkpoints" / "c" / "request_logs" / "commits").iterdir():
        lost.unlink()
    assert main(hashed) == 0
    shutil.rmtree(tmp_path / "tables" / "_checkpoints")
    assert main(hashed) == 0
    assert usage(tmp_path / "tables") == found
    capsys.readouterr()
    assert main(run) == 64
    assert "the principals of c are hashed: give their key" in capsys.readouterr().err
    assert main([*hashed, "--format", "delta"]) == UNKNOWN
    assert "has tables of the format parquet" in capsys.readouterr().err
    assert main(["fleet", "compact", *place]) == UNKNOWN
    assert "only those of Delta Lake can be changed" in capsys.readouterr().err
    assert main(["fleet", "readiness", *place, "--to", "4.2", "--output", "json"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    (refused,) = [row for row in rows if row["check"] == "refused-requests"]
    assert (refused["client_id"], refused["principal"]) == ("ancient", "User:ANONYMOUS")
    assert refused["subject"] == f"client 'ancient' of User:ANONYMOUS at {Pseudonyms(KEY.encode()).of('127.0.0.1')}"
