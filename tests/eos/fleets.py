"""App processes that are killed, stopped, resumed and started again, and what they tell of themselves."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import pytest

from eos.pipes import BOUND, Pipe
from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

APP = Path(__file__).parents[2] / "examples" / "exactly_once_app.py"

LEVELS = {"legacy": 1, "bridge": 2, "v2": 3}

Status = dict[str, Any]
"""A line of a status file: time, model, gate, latch, generation, committed, aborted, and more."""


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Term:
    """One life of an app, from a start to its end."""

    child: ChildProcess
    status_file: Path
    began: datetime = field(default_factory=now)
    _told: list[Status] = field(default_factory=list)
    _read: int = 0
    """Bytes of the file whose lines are in ``_told``: conditions ask many times a second."""

    @property
    def statuses(self) -> list[Status]:
        """What it has told so far, oldest first; a line that is half written is left for later."""
        if self.status_file.exists():
            with self.status_file.open("rb") as file:
                file.seek(self._read)
                *lines, half = file.read().split(b"\n")
                self._read = file.tell() - len(half)
            self._told += map(json.loads, lines)
        return self._told

    @property
    def models(self) -> list[str]:
        return [model for model, _ in groupby(status["model"] for status in self.statuses)]


class App:
    """One member of a fleet, over all its lives; its name, its process name and its settings stay."""

    def __init__(self, family: ProcessGroup, name: str, command: list[str]) -> None:
        self.name = name
        self.terms: list[Term] = []
        self._processes = family
        self._command = command
        self.start()

    def __repr__(self) -> str:
        return f"<{self.name}, life {len(self.terms)}, {self.child.state}>"

    @property
    def child(self) -> ChildProcess:
        return self.terms[-1].child

    @property
    def status(self) -> Status | None:
        return next(reversed(self.terms[-1].statuses), None)

    def start(self) -> None:
        stem = self._processes.folder / f"{self.name}.{len(self.terms) + 1}"
        status_file = stem.with_name(f"{stem.name}.status")
        command = [*self._command, "--status-file", str(status_file)]
        self.terms.append(Term(self._processes.start(command, log=self.log), status_file))

    @property
    def log(self) -> Path:
        return self._processes.folder / f"{self.name}.log"

    def kill(self) -> None:
        self.child.kill()

    def pause(self) -> None:
        """Stop it in its tracks: no heartbeat, no poll, its transaction open."""
        self.child.pause()

    def resume(self) -> None:
        self.child.resume()

    def terminate(self, timeout: float = BOUND) -> None:
        end = time.monotonic() + timeout
        while self.status is None and self.child.state == "running":
            assert time.monotonic() < end, f"{self!r} did not begin within {timeout:.0f} s"
            time.sleep(0.05)
        self.child.terminate()

    def stop(self, timeout: float = BOUND) -> None:
        """Ask it to end, and see that it does so by itself and without a complaint."""
        self.terminate(timeout)
        self.see_the_end(timeout)

    def see_the_end(self, timeout: float = BOUND) -> None:
        if not self.child.wait(timeout):
            self.abort()
            pytest.fail(f"{self.name} did not stop within {timeout:.0f} s:\n{self.child.last_lines(60)}")
        assert self.child.exit_code == 0, f"{self!r} ended with {self.child.exit_code}:\n{self.child.last_lines(40)}"

    def abort(self) -> None:
        """End it so that it says where it stands (``python -X faulthandler``)."""
        os.kill(self.child.pid, signal.SIGABRT)
        self.child.wait(BOUND)

    def check(self) -> None:
        assert self.child.state != "exited", (
            f"{self!r} ended by itself with {self.child.exit_code}:\n{self.child.last_lines(40)}"
        )


class Fleet:
    """The app processes of one group; however the owner ends, they end with it."""

    def __init__(self, pipe: Pipe, *, script: Path = APP) -> None:
        self.pipe = pipe
        self.apps: list[App] = []
        self._script = script
        self._processes = ProcessGroup("fleet")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, failure: BaseException | None, _trace: object) -> None:
        if failure is not None:
            for app in self.running:
                app.abort()
            failure.add_note(self.tell())
        self._processes.close()

    def start(
        self,
        name: str,
        *,
        model: str = "auto",
        work_ms: float = 0.0,
        consumer: Mapping[str, object] | None = None,
        producer: Mapping[str, object] | None = None,
    ) -> App:
        pipe = self.pipe
        name = f"{pipe.group}-{name}"
        options = {
            "--bootstrap": pipe.bootstrap,
            "--group": pipe.group,
            "--input": pipe.source,
            "--output": pipe.sink,
            "--app-id": pipe.group,
            "--instance-id": name,
            "--model": model,
            "--state-dir": self._processes.folder / "state",
            "--work-ms": work_ms,
            "--interval": 1,
        }
        command = [sys.executable, "-X", "faulthandler", "-W", "error", str(self._script), "--verbose"]
        command += [str(word) for pair in options.items() for word in pair]
        for key, value in {"client.id": name, **(consumer or {})}.items():
            command += ["--consumer", f"{key}={value}"]
        for key, value in (producer or {}).items():
            command += ["--producer", f"{key}={value}"]
        app = App(self._processes, name, command)
        self.apps.append(app)
        return app

    @property
    def running(self) -> list[App]:
        return [app for app in self.apps if app.child.state == "running"]

    def check(self) -> None:
        for app in self.apps:
            app.check()

    def stop(self) -> None:
        running = self.running
        for app in running:
            app.terminate()  # once: a second SIGTERM may find Python at its end, with no handler any more
        for app in running:
            app.see_the_end()

    def terms(self) -> list[Term]:
        return sorted((term for app in self.apps for term in app.terms), key=lambda term: term.began)

    def first_told(self, key: str, value: object) -> datetime | None:
        times = [status["time"] for term in self.terms() for status in term.statuses if status[key] == value]
        return datetime.fromisoformat(min(times)) if times else None

    def steps_back(self) -> list[str]:
        """Say where a member went to a lower model than it had committed in, or worked below the group's latch."""
        latched = self.first_told("latch", "v2")
        found = []
        for app in self.apps:
            for number, term in enumerate(app.terms, 1):
                late = latched is not None and term.began > latched
                if _sinks(term.statuses, floor="v2" if late else "legacy"):
                    found.append(f"{app.name}, life {number}{', begun after the latch' if late else ''}: {term.models}")
        return found

    def tell(self) -> str:
        rows = []
        for app in self.apps:
            for number, term in enumerate(app.terms, 1):
                last = next(reversed(term.statuses), None)
                rows.append(f"{app.name} life {number}: {' -> '.join(term.models)}; last {last}")
            rows.append(app.child.last_lines(2_000))  # where outputs are twice, the cause is minutes before the end
        return "\n".join(rows)


def _sinks(statuses: list[Status], *, floor: str) -> bool:
    """Whether a life worked in a lower model than it had to. Who has no partitions does no work.

    A v2 that was chosen before anybody has committed in it may be taken back: a member may have joined that is not
    ready. What was committed in may not, and the latch may not.
    """
    least = LEVELS[floor]
    committed = 0
    for status in statuses:
        level = LEVELS[status["model"]]
        if level < least and (status["committed"] > committed or (status["latch"] == "v2" and status["partitions"])):
            return True
        settled = status["latch"] == "v2" or level < LEVELS["v2"]
        if status["committed"] > committed and settled:
            least = max(least, level)
        committed = status["committed"]
    return False
