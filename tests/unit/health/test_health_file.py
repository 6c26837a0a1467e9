"""The file by which a process without HTTP shows its health, and the command that reads it."""

import json
from pathlib import Path

import pytest
import responses

from featuregate.cli import main
from featuregate.errors import ConfigError
from featuregate.health import file, write_health
from featuregate.health.file import read_health
from featuregate.testing import StaticFeatures, release_view


def test_a_file_says_what_health_said_and_ages(tmp_path: Path) -> None:
    """The age of the answers grows between two writes."""
    features = StaticFeatures(release_view("4.2"))
    write_health(features, tmp_path / "app.json", clock=lambda: 100.0)
    written = read_health(tmp_path / "app.json", clock=lambda: 130.0)
    assert written.seconds == 30.0
    assert written.health == features.health() | {"age_seconds": 30.0}


def test_nothing_but_the_file_is_left(tmp_path: Path) -> None:
    """Where it cannot be written the one before stays."""
    write_health(StaticFeatures(), tmp_path / "app.json")
    before = (tmp_path / "app.json").read_text()

    class Unwritable(StaticFeatures):
        def health(self):
            return {"age_seconds": object()}

    with pytest.raises(TypeError):
        write_health(Unwritable(), tmp_path / "app.json")
    assert [path.name for path in tmp_path.iterdir()] == ["app.json"]
    assert (tmp_path / "app.json").read_text() == before
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_health(StaticFeatures(), tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.json", "folder"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not what"),
        ("[]", "is not what"),
        ('{"version": 1, "written_at": "soon", "health": {}}', "is not what"),
        ('{"version": 1, "written_at": 1, "health": {}}', "is not what"),
        ('{"version": 2, "written_at": 1, "health": {"age_seconds": null, "last_error": null}}', "another release"),
        (
            '{"version": 1, "written_at": 1e300, "health": {"age_seconds": null, "last_error": null}}',
            "before this machine started",
        ),
        ("[" * 100_000, "is not what"),
        ('{"version": 1, "written_at": 1, "health": {"age_seconds": null}}', "is not what"),
        ('{"version": 1, "written_at": "1", "health": {"age_seconds": 3, "last_error": null}}', "is not what"),
        ('{"version": 1, "written_at": NaN, "health": {"age_seconds": 3, "last_error": null}}', "is not what"),
        *(
            (f'{{"version": 1, "written_at": 1, "health": {{"age_seconds": {age}, "last_error": null}}}}', problem)
            for age, problem in (
                ('"3"', "is not what"),
                ("true", "is not what"),
                (f"1{'0' * 400}", "is not what"),
                ("-5", "before this machine started"),
            )
        ),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """The error says what is wrong with the file."""
    path = tmp_path / "app.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_health(path)


def test_a_file_of_before_the_machine_started_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the clock that begins again at each start has passed the time in the file, this would seem to be new."""
    boot, path = tmp_path / "boot_id", tmp_path / "app.json"
    monkeypatch.setattr(file, "_BOOT", str(boot))
    boot.write_text("7c6\n")
    write_health(StaticFeatures(release_view("4.2")), path, clock=lambda: 100.0)
    assert read_health(path, clock=lambda: 130.0).seconds == 30.0
    boot.write_text("8d1\n")
    with pytest.raises(ConfigError, match="before this machine started"):
        read_health(path, clock=lambda: 130.0)
    boot.unlink()  # as where the system has no such name
    write_health(StaticFeatures(), path, clock=lambda: 100.0)
    boot.write_text("8d1\n")
    assert read_health(path, clock=lambda: 130.0).seconds == 30.0


def test_a_probe_reads_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The probe exits with 0 if the app is ready, 1 if not, and 2 without a file."""
    path = tmp_path / "app.json"
    assert main(["health", str(path)]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    features = StaticFeatures()
    write_health(features, path)
    assert main(["health", str(path)]) == 1
    assert "no broker has answered yet" in capsys.readouterr().out
    features.show(release_view("4.2"))
    write_health(features, path)
    assert main(["health", str(path), "--written-within", "300", "--max-age", "300"]) == 0
    assert capsys.readouterr().out == "ready\n"
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"written_at": said["written_at"] - 400}))
    assert main(["health", str(path), "--written-within", "300"]) == 1
    assert "has not written" in capsys.readouterr().out
    assert main(["health", str(path), "--max-age", "300"]) == 1
    assert "no broker has answered for 400 s" in capsys.readouterr().out


@responses.activate
def test_a_probe_asks_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    """An image without curl can use the probe."""
    for status, exit_code in ((200, 0), (503, 1), (302, 1)):
        responses.reset()
        responses.get("http://127.0.0.1:8080/readyz", status=status)
        assert main(["health", "http://127.0.0.1:8080/readyz"]) == exit_code
    responses.reset()
    assert main(["health", "http://127.0.0.1:8080/readyz"]) == 2
    assert "cannot be reached: ConnectionError" in capsys.readouterr().err
    assert main(["health", "http://127.0.0.1:8080/readyz", "--max-age", "3"]) == 64
