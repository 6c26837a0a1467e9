"""The clock of the relay's machine jumps: no view becomes old or young by that, and no client is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from relay_on_socket import served
from waiting import eventually

import featuregate as fg
from featuregate.testing import FakeCluster

pytestmark = pytest.mark.slow

BOUND = 60.0
DAY = 86_400.0
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
OFREP = "ofrep/v1/evaluate/flags"


@contextmanager
def relay(bootstrap: str, offset: Path) -> Iterator[str]:
    """Run a relay whose clock is off by what the file says. Its monotonic clock is not, as after a real jump."""
    if not LIBRARIES:
        pytest.skip("needs libfaketime, and it is not installed")
    faked = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    options = ["--bootstrap-server", bootstrap, "--interval", "0.2", "--listen", "127.0.0.1:0"]
    with served(*options, "--gate", "groups=group.version>=1", env=faked) as relay:
        eventually(lambda: requests.get(f"{relay.url}/readyz", timeout=BOUND).status_code == 200)
        yield relay.url


def test_jumps_of_the_clock_change_no_age_and_refuse_no_client(tmp_path: Path) -> None:
    """Ages are those of a monotonic clock."""
    offset = tmp_path / "offset"
    offset.write_text("+0")
    with FakeCluster(3) as brokers, relay(brokers.bootstrap, offset) as url:

        def health() -> dict[str, Any]:
            found: dict[str, Any] = requests.get(f"{url}/readyz", timeout=BOUND).json()["clusters"]["default"]
            return found

        def seen_at() -> float:
            return float(requests.get(f"{url}/v1/clusters/default/view", timeout=BOUND).json()["seen_at"])

        with fg.Discoverer(source=fg.HttpSource(url), interval=0.2, stale_after=30) as features:
            gate = features.gate("groups", "group.version>=1")
            assert gate.wait(BOUND)
            tag = requests.post(f"{url}/{OFREP}", json={}, timeout=BOUND).headers["ETag"]
            for jump in ("+2d", "-2d"):
                before = seen_at()
                offset.write_text(jump)
                eventually(lambda before=before: abs(seen_at() - before) > DAY)
                assert health()["status"] == "ok"
                assert health()["age_seconds"] < BOUND
                done = features.health()["polls"]
                eventually(lambda done=done: features.health()["polls"] >= done + 3)
                assert features.health()["failures"] == 0
                assert (features.health()["status"], gate.open) == ("ok", True)
            brokers.finalize({"group.version": 0})
            eventually(lambda: features.view is not None and features.view.level("group.version") != 1)
            assert features.health()["failures"] == 0
            flags = requests.post(f"{url}/{OFREP}", json={}, headers={"If-None-Match": tag}, timeout=BOUND)
            assert {flag["key"]: flag.get("value") for flag in flags.json()["flags"]}["groups"] is True
