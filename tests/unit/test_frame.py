"""The frame around the code: what an import costs, what the front door shows, what the wheel holds."""

from __future__ import annotations

import importlib.metadata
import json
import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import size

import featuregate

ROOT = Path(__file__).parents[2]
HEAVY = {
    "socket",
    "asyncio",
    "ssl",
    "requests",
    "scramp",
    "gssapi",
    "cachetools",
    "filelock",
    "packaging",
    "confluent_kafka",
    "pyspark",
    "rich",
    "starlette",
    "uvicorn",
    "jgo",
    "pytest",
}


def modules_after(statement: str) -> set[str]:
    code = (
        f"import json, sys; sys.path[:0] = json.loads(sys.argv[1]); {statement}; print(json.dumps(list(sys.modules)))"
    )
    command = [sys.executable, "-I", "-S", "-c", code, json.dumps([str(ROOT), *sys.path])]
    return set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def test_import_brings_no_heavy_module() -> None:
    """An app that only asks gates pays for no event loop, no TLS, no HTTP, no framework."""
    assert not modules_after("import featuregate as fg; [getattr(fg, name) for name in fg.__all__]") & HEAVY


def test_the_help_of_the_command_needs_no_extra() -> None:
    """``featuregate --help`` loads the commands of all integrations, also where no extra is installed."""
    commands = "import featuregate_confluent.command, featuregate_fleet.command, featuregate_relay.command"
    libraries = {"jinja2", "numpy", "pandas", "py4j", "pyarrow", "pydantic", "uvloop", "httptools"}
    assert not modules_after(commands) & (HEAVY - {"ssl", "socket", "asyncio"} | libraries)


@pytest.mark.parametrize(("protocol", "loads"), [("PLAINTEXT", False), ("SSL", True)])
def test_only_polls_with_tls_load_what_it_needs(protocol: str, loads: bool) -> None:  # noqa: FBT001 - a parameter
    """Keystores and certificates are a quarter of the time that loading takes."""
    config = {"bootstrap.servers": "b", "security.protocol": protocol}
    load = f"from featuregate.sources.brokers import BrokerSource; BrokerSource({config}).load()"
    assert ("featuregate.net.tls" in modules_after(load)) is loads


def test_import_waits_for_the_first_use() -> None:
    """A worker that only unpickles a view does not load the poll loop."""
    assert not {name for name in modules_after("import featuregate") if name.startswith("featuregate.")} - {
        "featuregate.before_forks",
        "featuregate.version",
    }


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """The lazy package behaves as any other module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        featuregate.nothing  # noqa: B018 - the read is the test
    assert set(featuregate.__all__) <= set(dir(featuregate))


def test_the_probe_sees_a_heavy_module() -> None:
    """The test above would fail if the import were heavy."""
    assert "asyncio" in modules_after("import featuregate, asyncio")


def test_front_door_shows_nothing_by_accident() -> None:
    """A public name is in ``__all__``, or it is a room, or it is what opens the door."""
    hinges = {"TYPE_CHECKING", "annotations", "import_module"}
    rooms = {path.stem for path in Path(featuregate.__file__).parent.iterdir()}
    public = {name for name in vars(featuregate) if name.isidentifier() and not name.startswith("_")}
    assert public - rooms - hinges <= set(featuregate.__all__)


def test_every_room_is_on_the_map() -> None:
    """A new module is a decision, and the page that walks the rooms tells it."""
    rooms = {module.name for module in pkgutil.iter_modules(featuregate.__path__)} - {"__main__", "version"}
    named = (ROOT / "docs/explanation/rooms.md").read_text()
    assert sorted(room for room in rooms if f"`{room}`" not in named) == []


def test_every_name_on_the_map_exists() -> None:
    """A page that says where things are is wrong as soon as one of them moves."""
    rooms = {module.name: module.ispkg for module in pkgutil.iter_modules(featuregate.__path__)}
    text = (ROOT / "docs/explanation/rooms.md").read_text()
    named = {name for name in re.findall(r"`(\w+(?:\.\w+)+)", text) if rooms.get(name.partition(".")[0])}
    assert named
    assert sorted(name for name in named if not exists(f"featuregate.{name}")) == []


def exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_module_of_the_sink_on_the_map_exists() -> None:
    """The walk of a batch id goes through the rooms of the PySpark side."""
    named = re.findall(r"`((?:pins|sink)\.\w+)`", (ROOT / "docs/explanation/rooms.md").read_text())
    folder = ROOT / "integrations/featuregate_spark"
    assert named
    assert [name for name in named if not (folder / name.replace(".", "/")).with_suffix(".py").is_file()] == []


def test_every_promise_is_proved_by_tests_that_name_it() -> None:
    """The page of invariants numbers promises; tests carry the numbers in their names, and no other numbers."""
    promises = re.findall(r"^(\d+)\. \*\*", (ROOT / "docs/explanation/invariants.md").read_text(), re.MULTILINE)
    assert promises == [str(number) for number in range(1, 20)]
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {number for text in texts for number in re.findall(r"def test_invariant_(\d+)_", text)} == set(promises)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_registry_host_is_written_down() -> None:
    """Where packages and jars come from is the business of the machine, which may have mirrors."""
    hosts = (
        "pypi" + r"\.org",
        "python" + "hosted",
        "maven" + r"(\.apache)?\.org",
        "maven-central\\.",
        "crates" + r"\.io",
    )
    pattern = re.compile("|".join(hosts).encode())
    assert not [str(path) for path in tracked_files() if pattern.search(path.read_bytes())]


def test_no_module_of_source_is_long() -> None:
    """`make size` lists long test modules, too."""
    long = [path for path, lines in size._lines("featuregate", "integrations").items() if lines > size.LONG]
    assert long == []


def test_locks_pin_every_package_with_hashes() -> None:
    """What pip installs under ``--require-hashes`` cannot be another file than the one that was locked."""
    for lock in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"\n(?=\S)", lock.read_text())
        assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


def test_a_set_up_compiles_nothing_against_the_system() -> None:
    """gssapi has no wheel for Linux: a machine without the headers of Kerberos could not run ``make demo``."""
    locked = (ROOT / "requirements" / "dev.txt").read_text()
    assert re.findall(r"^(gssapi)==", locked, re.MULTILINE) == []


@pytest.mark.slow
def test_wheel_is_pure_and_whole(tmp_path: Path) -> None:
    """The wheel serves any machine, ships its data and types, and leaves the tests at home."""
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "featuregate"
    shipped = {str(path.relative_to(ROOT)) for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "featuregate/py.typed" in names
    assert {name for name in names if name.startswith("featuregate/")} == shipped
    packages = {
        "featuregate",
        "featuregate_confluent",
        "featuregate_fleet",
        "featuregate_librdkafka",
        "featuregate_metrics",
        "featuregate_openfeature",
        "featuregate_relay",
        "featuregate_spark",
    }
    assert {name.split("/")[0].split("-")[0] for name in names} == packages
    assert {f"{package}/py.typed" for package in packages} <= set(names)


def test_everything_installs_from_a_checkout_only() -> None:
    """No index has the package, so ``pip install featuregate`` would fail or install the package of somebody else."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "integrations").glob("*.md")]
    code = [path for folder in ("featuregate", "integrations", "examples") for path in (ROOT / folder).rglob("*.py")]
    wrong = re.compile(r"(pip \w+|uv add) [^\n`&]*\bfeaturegate\b(?!_)")
    found = [path.name for path in (*pages, *code) if wrong.search(path.read_text())]
    # The one says what changes with the first release, the other how to have a wheel or an index of one's own.
    assert [name for name in found if name not in {"long-runs.md", "install.md"}] == []


def test_the_changelog_has_the_version_that_runs() -> None:
    """What users install and what they read about it agree, and each part says something."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changelog, re.MULTILINE)
    assert versions[0] == featuregate.__version__ == importlib.metadata.version("featuregate")
    newest = re.split(r"^## ", changelog, flags=re.MULTILINE)[1]
    parts = re.split(r"^### ", newest, flags=re.MULTILINE)[1:]
    assert parts
    assert [part.splitlines()[0] for part in parts if "\n- " not in part] == []
