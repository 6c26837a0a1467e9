"""Two instances of an exactly-once app of the examples, of which the first one becomes a zombie again and again.

It is stopped in the middle of a transaction until the second one has taken over, and then goes on.
"""

import os
import signal
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"
sys.path.append(str(EXAMPLES))

from demo_apps import Group  # noqa: E402 - of the demo

from featuregate.testing.local_kafka.processes import ProcessGroup  # noqa: E402
from featuregate.testing.traffic import wait_for  # noqa: E402

SECONDS = 90.0
OPTIONS = ("--work-ms", "30", "--consumer", "session.timeout.ms=3000", "--consumer", "heartbeat.interval.ms=500")


def make_zombie(group: Group) -> None:
    zombie = group.instances[0]
    wait_for("the group is whole", group.whole, SECONDS)
    before = zombie.committed()
    wait_for("it commits", lambda: zombie.committed() > before, SECONDS)
    zombie.child.pause()
    while not zombie.at_work():
        zombie.child.resume()
        time.sleep(0.05)
        zombie.child.pause()
    asleep = wait_for("the offsets are told", group.offsets, SECONDS)
    wait_for("the other one takes over", lambda: all(now > asleep[at] for at, now in group.offsets().items()), SECONDS)
    zombie.child.resume()


def main() -> None:
    """Go on until SIGTERM; the argument is the script of the app."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    group, family = Group("copies", os.environ["BOOTSTRAP_SERVERS"], partitions=2), ProcessGroup("zombies")
    own = ("--state-dir", str(family.folder / "state"), "--interval", "1") if "exactly_once" in sys.argv[1] else ()
    group.start(EXAMPLES / sys.argv[1], family, [*OPTIONS, *own])
    try:
        while True:
            make_zombie(group)
    finally:
        group.stop()
        family.close()


if __name__ == "__main__":
    main()
