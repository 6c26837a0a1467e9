"""A relay on a socket, in a thread of this process."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import featuregate as fg
from featuregate_relay.access.authentication import Access
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.server import RelayServer, bind

BOUND = 30.0


@contextmanager
def serving(
    discoverers: Mapping[str, fg.Discoverer],
    *gates: fg.Gate,
    access: Access | None = None,
    origins: Sequence[str] = (),
    tls: Certificates | None = None,
) -> Iterator[str]:
    """Serve the app on a free port, as the relay does, and give its URL."""
    listener = bind("127.0.0.1", 0)
    clusters = {name: PolledCluster(features, gates) for name, features in discoverers.items()}
    app = make_app(clusters, access=access, origins=origins)
    server = RelayServer(app, tls)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="relay")
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(BOUND)
        listener.close()
