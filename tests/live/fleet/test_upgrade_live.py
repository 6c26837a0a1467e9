"""``make demo-fleet``: an upgrade that drops API versions breaks the client that readiness named, and no other."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from featuregate.cli import main

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]


@pytest.mark.usefixtures("jvm")
def test_an_upgrade_breaks_the_client_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three brokers go to 4.2.0; dropping an unused API blocks no client."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    demo: Any = importlib.import_module("fleet_demo")
    outcome = demo.play(tmp_path, tmp_path / "report.html")
    assert {app: works for app, (_, works) in outcome.items()} == {"orders": True, "billing": False}
    assert outcome["orders"][0] == "ok"
    assert "Kafka 4.2 serves Produce 3-13, and the client uses 1" in outcome["billing"][0]
    assert "<title>demo to Kafka 4.2: block</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")

    def blocked(move: str) -> list[tuple[Any, ...]]:
        capsys.readouterr()
        asked = ["readiness", "--tables", str(tmp_path / "tables"), "--cluster", "demo", "--output", "json"]
        code = main([*asked, "--drop-api", move])
        rows = json.loads(capsys.readouterr().out)["rows"]
        found = [(row["client_id"], row["api"], row["versions"]) for row in rows if row["verdict"] == "block"]
        assert (code == 1) is bool(found)
        return found

    assert blocked("Produce<3") == [("billing", "Produce", [1])]
    assert blocked("Fetch<4") == []
