"""The page of a relay over a cluster that is rolled to another release while you look.

python examples/relay_page.py                 three brokers on sockets of this machine, which speak Kafka's protocol
python examples/relay_page.py --brokers 100   how a large cluster looks
python examples/relay_page.py --real          three real brokers (needs Java 17; downloads Kafka once)
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from contextlib import ExitStack

import featuregate as fg
from featuregate.testing import FakeCluster, LocalKafka
from featuregate_relay.server import PolledCluster, bind, serve

BEFORE, AFTER = "3.9", "4.2"
LEVELS = {"metadata.version": 29, "group.version": 1, "transaction.version": 2}
GATES = {
    "new-groups": "kip848",
    "transactions-v2": "transaction.version>=2",
    "zstd": "Produce>=7 & Fetch>=10",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the page until Ctrl-C, and roll the brokers meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=3, help="how many (3)")
    parser.add_argument("--seconds", type=float, default=5.0, help="between two steps of the roll (5)")
    parser.add_argument("--port", type=int, default=8080, help="of the page (8080)")
    parser.add_argument("--real", action="store_true", help="real brokers")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    with ExitStack() as running:
        if options.real:
            cluster: LocalKafka | FakeCluster = running.enter_context(LocalKafka("3.9.2", nodes=options.brokers))
        else:
            cluster = running.enter_context(FakeCluster(options.brokers, release=BEFORE))
        features = fg.Discoverer(cluster.bootstrap, interval=1)
        gates = tuple(features.gate(name, requirement) for name, requirement in GATES.items())
        listener = bind("127.0.0.1", options.port)
        print(f"open http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
        operator = threading.Thread(target=roll, args=(cluster, options.seconds, stop), name="operator")
        operator.start()
        running.callback(operator.join)
        running.callback(stop.set)
        serve({"orders": PolledCluster(features, gates)}, listener)


def roll(cluster: LocalKafka | FakeCluster, seconds: float, stop: threading.Event) -> None:
    """Roll one broker after the other, then raise the finalized levels: so does an operator."""
    nodes = cluster.nodes if isinstance(cluster, LocalKafka) else [broker.node_id for broker in cluster.brokers]
    for node_id in nodes:
        if stop.wait(seconds):
            return
        if isinstance(cluster, LocalKafka):
            cluster.roll(node_id, "4.2.0")
            continue
        cluster.stop(node_id)
        stop.wait(seconds / 2)
        cluster.roll(node_id, AFTER)
    if not stop.wait(seconds):
        cluster.finalize(LEVELS)


if __name__ == "__main__":
    main()
