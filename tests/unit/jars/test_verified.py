"""Downloads of jars: what a mirror may serve, and what is refused."""

import hashlib
import logging
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from http_serving import serving_http

from featuregate.errors import LocalKafkaError
from featuregate.jars.maven import Download, fetched, known_sums

pytest.importorskip("jgo")


NAMED = "delta-storage"
WANTED = {name: Download("Example", (f"org.example:{name}:4.0.0",), lambda _: True) for name in ("app", NAMED)}


class Mirror(BaseHTTPRequestHandler):
    """Serves an artifact, and beside it a checksum: the right one, or another one."""

    def __init__(self, *args: object, sha1: str | None, **options: object) -> None:
        self.sha1 = sha1
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        path, _, kind = self.path.rpartition(".")
        content = self.content(path, kind)
        if kind == "sha1":
            if self.sha1 == "none":
                self.send_error(404)
                return
            content = (self.sha1 or hashlib.sha1(self.content(*path.rpartition(".")[::2])).hexdigest()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def content(self, path: str, kind: str) -> bytes:
        name = path.split("/")[-3]
        if kind != "pom":
            return b"PK a jar"
        return (
            f"<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            f"<artifactId>{name}</artifactId><version>4.0.0</version></project>"
        ).encode()


def fetch(home: Path, url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Download one artifact from a mirror that the user has configured."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FEATUREGATE_CACHE", str(home / "cache"))
    (home / ".jgorc").write_text(f"[repositories]\nmirror = {url}\n")
    return fetched(WANTED[name], home / "cache" / "example" / "4.0.0")


def test_an_artifact_is_installed_whose_checksum_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder has the jar, and a second call asks nobody."""
    with serving_http(Mirror, sha1=None) as url:
        folder = fetch(tmp_path, url, "app", monkeypatch)
    assert [jar.read_bytes() for jar in folder.iterdir()] == [b"PK a jar"]
    assert fetch(tmp_path, "http://127.0.0.1:1", "app", monkeypatch) == folder


@pytest.mark.parametrize(
    ("sha1", "problem"),
    [("0" * 40, "Checksum mismatch for app-4"), ("<html>", "Checksum mismatch"), ("none", "has no checksum of app-4")],
)
@pytest.mark.parametrize("level", [logging.DEBUG, logging.CRITICAL])
def test_an_artifact_is_refused_whose_checksum_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sha1: str, problem: str, level: int
) -> None:
    """jgo itself logs a warning, whatever is logged, and goes on. Nothing of it is kept."""
    monkeypatch.setattr(logging.getLogger("jgo"), "level", level)
    with (
        serving_http(Mirror, sha1=sha1) as url,
        pytest.raises(LocalKafkaError, match=rf"could not download Example from Maven: .*{problem}") as caught,
    ):
        fetch(tmp_path, url, "app", monkeypatch)
    assert caught.value.__cause__ is None
    assert not list((tmp_path / "cache").rglob("*.pom"))
    with serving_http(Mirror, sha1=None) as url:
        assert fetch(tmp_path, url, "app", monkeypatch).is_dir()


def test_a_jar_that_this_package_names_has_the_checksum_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror that serves another file can serve its checksum, too."""
    with (
        serving_http(Mirror, sha1=None) as url,
        pytest.raises(LocalKafkaError, match=r"delta-storage-4\.0\.0\.jar has the SHA-256 .*: the mirror"),
    ):
        fetch(tmp_path, url, NAMED, monkeypatch)
    assert not (tmp_path / "cache" / "example" / "4.0.0").exists()
    assert known_sums()[f"{NAMED}-4.0.0.jar"].startswith("9bdb9fb4")


def test_a_mirror_in_clear_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is on this machine: anybody in between could serve what he likes."""
    with pytest.raises(LocalKafkaError, match=r"the mirror 'mirror' of jgo's configuration must begin with https://"):
        fetch(tmp_path, "http://mirror.example/maven2", "app", monkeypatch)
