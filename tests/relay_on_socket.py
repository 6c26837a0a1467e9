"""A relay on a socket, in a thread of this process."""

import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import uvicorn

import featuregate as fg
from featuregate_relay.access.authentication import Access
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.connections import Connections
from featuregate_relay.limits import LimitedProtocol
from featuregate_relay.server import DRAIN_SECONDS, bind

BOUND = 30.0


@contextmanager
def serving(
    discoverers: Mapping[str, fg.Discoverer],
    *gates: fg.Gate,
    access: Access | None = None,
    origins: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
    connections: Connections | None = None,
) -> Iterator[str]:
    """Serve the app on a free port, as the relay does, and give its URL."""
    listener = bind("127.0.0.1", 0)
    clusters = {name: PolledCluster(features, gates) for name, features in discoverers.items()}
    app = make_app(clusters, access=access, origins=origins)
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        http=partial(LimitedProtocol, connections=connections),  # type: ignore[arg-type]
        loop="featuregate_relay.limits:make_loop",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="relay")
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        app.state.stop_waiting()
        server.should_exit = True
        thread.join(BOUND)
        listener.close()
