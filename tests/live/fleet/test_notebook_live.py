"""The notebook of the examples, cell by cell, in a Spark that runs already."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from fleet_clients import copy_one_record
from pyspark.sql import SparkSession

from featuregate.testing import LocalKafka

NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebook.ipynb"
pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]


def value_of(cell: str, names: dict[str, Any]) -> object:
    """Run the code of a cell, and return the value of its last expression, as a notebook does."""
    body = ast.parse(cell).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names) if last else None


@pytest.mark.usefixtures("jvm")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells show a snapshot, what a call has read, and a report as a page; the settings of the session stay."""
    with LocalKafka("3.9.2", log_levels={"kafka.request.logger": "DEBUG"}) as kafka:
        copy_one_record(kafka)
        (tmp_path / "logs" / "1").mkdir(parents=True)
        (tmp_path / "logs" / "1" / "server.log").hardlink_to(kafka.node(1).log)
        for name, value in (("BROKERS", kafka.bootstrap), ("LOGS", tmp_path / "logs"), ("FOLDER", tmp_path)):
            monkeypatch.setenv(name, str(value))
        before = dict(SparkSession.builder.getOrCreate().conf.getAll)
        names: dict[str, Any] = {"__name__": "__main__"}
        cells = json.loads(NOTEBOOK.read_text())["cells"]
        shown = [value_of("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
        after = dict(SparkSession.builder.getOrCreate().conf.getAll)
    assert {name: after[name] for name in before} == before, "Delta Lake adds settings of its own"
    pages = [each._repr_html_() for each in shown if hasattr(each, "_repr_html_")]
    assert len(pages) == 2
    assert pages[0].startswith("<pre>cluster ")
    assert pages[1].startswith("<iframe ")
    assert 100 in shown
    assert names["report"].verdict == "unknown"
    assert "orders to Kafka 4.2: unknown" in capsys.readouterr().out
