"""A look at a log says of its clients what the pipeline says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from featuregate.cli import main

pytestmark = [pytest.mark.live, pytest.mark.proof("fleet"), pytest.mark.timeout(600)]

OF_REQUESTS = {"api-versions", "cut-requests", "inter-broker", "refused-requests"}


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("move", [("--to", "4.2"), ("--drop-api", "Fetch<12")])
def test_a_look_has_the_rows_of_readiness(
    move: tuple[str, str], tmp_path: Path, broker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the log of a real broker."""
    (tmp_path / "logs" / "1").mkdir(parents=True)
    shutil.copy(broker_log, tmp_path / "logs" / "1" / "a.log")
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    assert main(["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), *place]) == 0

    def rows(*arguments: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        main(["fleet", *arguments, *move, "--output", "json"])
        found = json.loads(capsys.readouterr().out)["rows"]
        return [row for row in found if row["check"] in OF_REQUESTS]

    looked = rows("peek", str(broker_log))
    assert looked
    assert looked == rows("readiness", *place)
