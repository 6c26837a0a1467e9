"""Build what would be put on an index, and try it: ``make release-check``.

The distributions are built twice, and once more from the source distribution: all have the same bytes. ``twine``
checks their metadata, CycloneDX lists what an installation of the core has, and each extra is installed in an
environment of its own, for each Python that is here, from an index on this machine. That index has this project alone,
and sends pip to the usual one for all others.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import HeaderParser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WHOLE = "import {0} as package; [getattr(package, name) for name in package.__all__]"
ASKS = """
import featuregate as fg
from featuregate.testing import FakeCluster
with FakeCluster(1) as cluster:
    assert fg.evaluate(fg.discover(cluster.bootstrap), "group.version>=1").open
"""
SMOKE = {
    "": ASKS,
    "all": "; ".join(WHOLE.format(f"featuregate_{name}") for name in ("confluent", "fleet", "openfeature", "spark")),
    "cli": "import rich, shtab; from featuregate.cli import main; assert main(['completion', 'bash']) == 0",
    "confluent": WHOLE.format("featuregate_confluent"),
    "fleet": WHOLE.format("featuregate_fleet"),
    "fleet-azure": "import adlfs, upath",
    "fleet-gcs": "import gcsfs, upath",
    "fleet-hdfs": "import fsspec, hdfs_native, upath",
    "fleet-s3": "import s3fs, upath",
    "kerberos": "import gssapi",
    "openfeature": WHOLE.format("featuregate_openfeature"),
    "opentelemetry": "import featuregate_metrics.opentelemetry",
    "peek": "import featuregate_fleet.files.parsing",
    "prometheus": "import featuregate_metrics.prometheus",
    "readiness": "import featuregate_fleet.metrics, prometheus_client, requests",
    "relay": "import featuregate_relay.app, uvicorn",
    "spark": WHOLE.format("featuregate_spark"),
    "testing": WHOLE.format("featuregate.testing"),
}
"""What runs with each extra; the empty one is the core."""


def main() -> int:
    """Build, compare, check and install; the first failure ends it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--python", action="append", help="one of the Pythons alone, such as 3.12; may be repeated")
    parser.add_argument("--extra", action="append", help="one of the extras alone; may be repeated")
    options = parser.parse_args()
    built = build_twice()
    wheel = next(each for each in built if each.suffix == ".whl")
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built))
    check_metadata(wheel)
    pythons = dict(found_pythons(options.python or PYTHONS))
    with index_of(built) as url, tempfile.TemporaryDirectory() as folder:
        for version, python in pythons.items():
            for extra in options.extra or SMOKE:
                try_extra(python, extra, url, Path(folder) / f"{version}-{extra or 'core'}")
                print(f"Python {version}: {extra or 'the core'} installs and runs", flush=True)
    for path in sorted(DIST.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(ROOT)}")
    return 0


def run(*command: str | Path, cwd: Path = ROOT, quiet: bool = False) -> None:
    """Run a program; its failure ends the check."""
    left_out = {"PIP_EXTRA_INDEX_URL", "PYTHONPATH"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    out = subprocess.DEVNULL if quiet else None
    subprocess.run(command, check=True, cwd=cwd, env=environment, stdout=out)  # noqa: S603 - the checks of this file


def said_by(*command: str) -> str:
    """Return what a program prints; nothing where it fails."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - likewise


def build_twice() -> list[Path]:
    """Build into dist/, and again elsewhere. Raises `SystemExit` where the bytes differ."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        again, source, from_source = (Path(folder) / name for name in ("again", "source", "from_source"))
        build(ROOT, DIST)
        build(ROOT, again)
        with tarfile.open(next(DIST.glob("*.tar.gz"))) as archive:
            archive.extractall(source, filter="data")
        build(next(source.iterdir()), from_source)
        for path in sorted(DIST.iterdir()):
            others = [other / path.name for other in (again, from_source)]
            if any(not same_bytes(path, other) for other in others):
                raise SystemExit(f"{path.name} has other bytes each time it is built")
    print("wheel and sdist have the same bytes when they are built again, and when they are built from the sdist")
    return sorted(DIST.iterdir())


def build(project: Path, folder: Path) -> None:
    """Build both distributions with what is installed, so that nothing is downloaded."""
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=project)


def same_bytes(one: Path, other: Path) -> bool:
    """Return whether two files are alike."""
    return one.read_bytes() == other.read_bytes()


def check_metadata(wheel: Path) -> None:
    """Raise `SystemExit` where the wheel names an extra that nothing tries, or a Python that its classifiers lack."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    extras = set(metadata.get_all("Provides-Extra", []))
    if extras != {*SMOKE} - {""}:
        raise SystemExit(f"extras that nothing tries, or that are not there: {sorted(extras ^ ({*SMOKE} - {''}))}")
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier", [])))
    if (*named,) != PYTHONS:
        raise SystemExit(f"the classifiers name Python {', '.join(named)}")


def found_pythons(wanted: tuple[str, ...] | list[str]) -> Iterator[tuple[str, str]]:
    """Yield the wanted Pythons that are on this machine."""
    for version in wanted:
        python = shutil.which(f"python{version}") or "python"
        if said_by(python, "-c", "import platform; print(platform.python_version())").startswith(f"{version}."):
            yield version, python
        else:
            print(f"Python {version}: not on this machine")


def try_extra(python: str, extra: str, url: str, folder: Path) -> None:
    """Install an extra in a fresh environment, and run its smoke test; of the core make the SBOM, too."""
    if extra == "kerberos" and shutil.which("krb5-config") is None:
        print("kerberos: left out, because it is compiled against the system's Kerberos, which is not here")
        return
    run(python, "-m", "venv", str(folder))
    inside = str(folder / "bin" / "python")
    what = f"featuregate[{extra}]" if extra else "featuregate"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
    run(inside, "-m", "pip", "install", *quiet, "--index-url", url, what)
    run(inside, "-m", "pip", "check", quiet=True)
    run(inside, "-W", "ignore", "-c", SMOKE[extra], cwd=folder, quiet=True)
    run(folder / "bin" / "featuregate", "--version", cwd=folder, quiet=True)
    if not extra:
        list_parts(inside)
    shutil.rmtree(folder)


def list_parts(python: str) -> None:
    """Write the SBOM of an installation of the core, the same each time."""
    file = DIST / "featuregate.cdx.json"
    options = ("--output-reproducible", "--of", "JSON", "--pyproject", str(ROOT / "pyproject.toml"), "-o", str(file))
    run(str(Path(sys.executable).with_name("cyclonedx-py")), "environment", *options, python)


@contextmanager
def index_of(built: list[Path]) -> Iterator[str]:
    """Serve these distributions as an index on this machine (PEP 503)."""
    files = {path.name: path.read_bytes() for path in built}
    upstream = usual_index()

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, project, name = self.path.split("/")
            if project != "featuregate":
                self.send_response(HTTPStatus.FOUND)
                self.send_header("Location", f"{upstream.rstrip('/')}/{project}/")
                self.end_headers()
                return
            page = "".join(f'<a href="{each}">{each}</a>\n' for each in files).encode()
            body = files.get(name, page)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream" if name else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


def usual_index() -> str:
    """Return the index that pip uses on this machine."""
    configured = said_by(sys.executable, "-m", "pip", "config", "get", "global.index-url")
    from pip._internal.models.index import PyPI  # noqa: PLC0415 - only the default of pip

    return os.environ.get("PIP_INDEX_URL") or configured or PyPI.simple_url


if __name__ == "__main__":
    sys.exit(main())
