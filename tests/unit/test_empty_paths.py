"""An empty text is no path: it is a variable that is not set, and would be the current folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import featuregate as fg
from featuregate.cli import main
from featuregate.config.properties_file import read_properties
from featuregate.errors import ConfigError
from featuregate.health.file import read_health, write_health
from featuregate.jars.maven import cache_folder
from featuregate.polling.hold_sources import HoldSources
from featuregate.testing import StaticFeatures
from featuregate_confluent.member.process_name import claim_process_name
from featuregate_fleet.files.storage import storage_path
from featuregate_relay.config.relay import ConfigMistakes, read_config

RELAY = "http://relay"
BLANKS = ("", " ", "\t\n")
NOTHING = (*BLANKS, "\ufeff", "\u3000", "\u2060", "\u202f", '""', "''")
DOORS: dict[str, Callable[[str], object]] = {
    "latch_store": lambda text: fg.Discoverer("localhost:9092", latch_store=text),
    "the latch store": fg.FileLatchStore,
    "hold": lambda text: fg.Discoverer("localhost:9092", hold=text),
    "config": fg.Discoverer,
    "a file of properties": read_properties,
    "verify": lambda text: fg.HttpSource(RELAY, verify=text),
    "cert": lambda text: fg.HttpSource(RELAY, cert=text),
    "the key of a cert": lambda text: fg.HttpSource(RELAY, cert=("cert.pem", text)),
    "fallback": lambda text: fg.HttpSource(RELAY, fallback=text),
    "health that is written": lambda text: write_health(StaticFeatures(), text),
    "health that is read": read_health,
    "state_dir": lambda text: claim_process_name("app", state_dir=text),
    "storage_path": lambda text: storage_path("storage_path", text),
}
OPTIONS = (
    ("describe", "--bootstrap-server", "localhost:1", "--command-config"),
    ("hold", "list", "--file"),
    ("fit", "--requirements"),
    ("fit", "--python"),
    ("plan", "disable", "--feature", "group.version", "--bootstrap-server", "localhost:1", "--latches"),
    ("serve", "--config"),
    ("fleet", "peek", "--to", "4.2"),
    ("health",),
)


@pytest.mark.parametrize("text", NOTHING)
@pytest.mark.parametrize("door", DOORS)
def test_an_empty_text_is_refused_as_a_path(
    door: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written into the folder where the process runs."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        DOORS[door](text)
    assert list(tmp_path.iterdir()) == []


def test_a_path_of_an_empty_text_is_no_latch_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the current folder, which may go with the container."""
    monkeypatch.delenv("LATCHES", raising=False)
    with pytest.raises(ConfigError, match="current folder"):
        fg.Discoverer("localhost:9092", latch_store=Path(os.environ.get("LATCHES", "")))


@pytest.mark.parametrize("text", ['"/var/lib/latches"', "'latches'", '"a', "\u201ca\u201d"])
def test_a_path_in_quotes_is_refused(text: str) -> None:
    """Docker keeps them in a file of variables: the folder would be below the current one, and vanish with it."""
    for door in DOORS.values():
        with pytest.raises(ConfigError):
            door(text)


@pytest.mark.parametrize(
    "text",
    [
        *("None", "null", "NULL", "nil", "undefined", "None/a", "/var/None/a", "/var/<no value>"),
        *("$LATCHES", "${LATCHES}/a", "$(LATCHES)", "%LATCHES%", "{{ latches }}"),
        *("/var/$APP/a", "/var/lib/${APP}", "C:\\data\\%APP%\\a", "/var/{{ app }}/a", "/var/$(APP)"),
    ],
)
def test_a_variable_that_nothing_has_replaced_is_refused_as_a_path(text: str) -> None:
    """Manifests and f-strings leave it so: the folder would be below the current one, or that of all apps."""
    for place in (text, Path(text)):
        for door in (fg.FileLatchStore, DOORS["hold"], DOORS["storage_path"]):
            with pytest.raises(ConfigError, match=r"is empty|begins with a variable|has a variable, or no value"):
                door(place)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is empty"):
        fg.FileLatchStore(Path(" "))


def test_the_null_device_is_a_file_without_properties() -> None:
    """Scripts that need none give it to Kafka's own tools; elsewhere ``null`` in a path is a value that is missing."""
    assert read_properties(os.devnull) == {}
    with pytest.raises(ConfigError, match="or no value"):
        fg.FileLatchStore(os.devnull)


@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_an_empty_option_is_refused_as_a_path(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a script's variable is not set. Without --command-config there would be no TLS."""
    monkeypatch.chdir(tmp_path)
    for text in NOTHING:
        try:
            code = main([*words, text])
        except SystemExit as ended:  # what argparse refuses
            code = int(str(ended.code))
        assert code != 0
        assert "is empty: give a path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_path_in_the_file_of_a_relay_is_refused(tmp_path: Path) -> None:
    """Each key of it that names a file."""
    file = tmp_path / "relay.toml"
    file.write_text('[clusters.a]\nbootstrap = "localhost:9092"\nlatches = " "\n')
    with pytest.raises(ConfigMistakes, match="is empty"):
        read_config(file)


@pytest.mark.parametrize("text", BLANKS)
def test_an_empty_variable_counts_as_unset(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Manifests and env files have such lines for what is not wanted."""
    assert HoldSources({"FEATUREGATE_HOLD": text, "FEATUREGATE_HOLD_FILE": text}).read().found == ()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("FEATUREGATE_CACHE", text)
    assert cache_folder() == Path.home() / ".cache" / "featuregate"
    monkeypatch.setenv("FEATUREGATE_BOOTSTRAP_SERVER", text)
    assert main(["describe"]) != 0
    assert "You must specify either" in capsys.readouterr().err
