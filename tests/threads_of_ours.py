"""Programs that start each thread of ours in a new interpreter: what the thread imports, and what a fork leaves.

Each program has ``where``, the address of a cluster or the URL of a relay, and an empty ``folder``. It starts its
thread and defines ``done``, which becomes true once the thread has done its work.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

_GATE = "gate = features.gate('zstd', fg.presets.zstd); done = lambda: gate.open\n"
_PLAIN = f"import featuregate as fg\nfeatures = fg.Discoverer(where, interval=0.05)\n{_GATE}"
_REPORTS = """
import featuregate as fg
sent = []
{sender}
reporter = fg.UsageReporter(send, app='orders')
features = fg.Discoverer(where, interval=0.05, usage=reporter)
features.start()
done = lambda: (features.ensure_polling(), sent)[1]
"""
PROGRAMS = {
    "poll": _PLAIN,
    "relay client": f"import featuregate as fg\nfeatures = fg.Discoverer(source=fg.HttpSource(where))\n{_GATE}",
    "fallback": (
        "import featuregate as fg\nsource = fg.HttpSource('http://127.0.0.1:9', fallback=where)\n"
        "features = fg.Discoverer(source=source)\n"
        "gate = features.gate('zstd', fg.presets.zstd); done = lambda: gate.decision.waits is not None\n"
    ),
    "latch store": f"import featuregate as fg\nfeatures = fg.Discoverer(where, latch_store=folder)\n{_GATE}",
    "usage": _REPORTS.format(sender="send = sent.append"),
    "OpenFeature provider": f"""
from openfeature import api
from featuregate_openfeature import KafkaFeatureProvider
{_PLAIN}
api.set_provider(KafkaFeatureProvider(features, [gate]))
client = api.get_client()
done = lambda: client.get_boolean_value('zstd', False)
""",
    "group gate": f"""
from featuregate_confluent import GroupGate, GroupLatchState
class Store:
    states = {{}}
    def load_group(self, key): return self.states.get(key, GroupLatchState())
    def save_group(self, key, state, *, gone=()): self.states[key] = self.load_group(key).join(state)
{_PLAIN}
group = GroupGate(features, gate, group='g', store=Store(), members=lambda: {{'a'}}, member='a', interval=0.05)
group.start()
done = lambda: gate.open and (group.open or 'forked child' in group.health()['why'])
""",
}
"""The name of each thread to the program that starts it."""

_RUN = """
import json, sys, threading, time
sys.path[:0], program, where, folder = json.loads(sys.argv[1])
"""
_WATCHED = """
class Finder:
    found = {}
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            self.found.setdefault(name, threading.current_thread().name)
import warnings; warnings.simplefilter('error')
sys.meta_path.insert(0, Finder())
exec(program)
end = time.monotonic() + 60
while not done() and time.monotonic() < end:
    time.sleep(0.01)
print(json.dumps([bool(done()), Finder.found]), flush=True)
"""
_FORKED = """
import os, random, signal, warnings
def child(delay):
    exec(program, globals())
    time.sleep(delay)
    with warnings.catch_warnings(action='ignore'):
        forked = os.fork()
    if not forked:
        end = time.monotonic() + WITHIN
        while not done() and time.monotonic() < end:
            time.sleep(0.01)
        os._exit(0 if done() else 1)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
never = []
for delay in DELAYS:
    trial = os.fork()
    if not trial:
        child(delay)
    if os.waitpid(trial, 0)[1]:
        never.append(delay)
print(json.dumps(never), flush=True)
"""


def imported_by(program: str, where: str, folder: Path) -> dict[str, str]:
    """Return the modules that a thread is the first to import, each with the thread's name, until its work is done."""
    done, found = _run(_WATCHED, program, where, folder)
    assert done, f"not done; imported: {found}"
    return found


def never_done(program: str, where: str, folder: Path, delays: Sequence[float], *, within: float = 30.0) -> list[float]:
    """Return those delays in seconds after which a forked child has not done its work ``within`` seconds."""
    code = _FORKED.replace("DELAYS", repr(list(delays))).replace("WITHIN", repr(within))
    return _run(code, program, where, folder)


def _run(code: str, program: str, where: str, folder: Path) -> list:
    argument = json.dumps([[str(ROOT), *sys.path], program, where, str(folder)])
    ran = subprocess.run(
        [sys.executable, "-I", "-c", _RUN + code, argument], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])
