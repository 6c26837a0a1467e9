"""Pages of exporters for tests: those of a real broker, and the same content as other rules spell it."""

import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from featuregate.jars.maven import Download, cache_folder, fetched
from featuregate_fleet.metrics.pages import Page, page_of
from featuregate_fleet.metrics.verdicts import CONFIGURATION

PAGES = Path(__file__).parent / "data" / "metrics"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
STARTED = NOW - timedelta(days=30)

REQUESTS = "kafka_network_requestmetrics_requests_total"
SOFTWARE = "kafka_server_socket_server_metrics_connections_software"

OLD = {("Fetch", 3): 7, ("FetchConsumer", 3): 7}
"""What librdkafka 1.9.2 with an old setting sent; pages of published rules have these values."""
USUAL = {("Metadata", 12): 40, ("FindCoordinator", 4): 2, ("Fetch", 16): 9, ("FetchConsumer", 16): 4}
"""What a client of today sends, and five fetches of a follower."""


def page(
    requests: Mapping[tuple[str, int], int] | None = None,
    software: Mapping[tuple[str, str, str], int] | None = None,
    *,
    started: datetime | None = STARTED,
    more: str = "",
) -> bytes:
    """Return a page as Strimzi's rules write it; software is by listener, name and version."""
    lines = [f'{REQUESTS}{{request="{api}",version="{v}"}} {n}.0' for (api, v), n in (requests or {}).items()]
    lines += [
        f'{SOFTWARE}{{clientSoftwareName="{of}",clientSoftwareVersion="{v}",listener="{at}",networkProcessor="0"}} {n}'
        for (at, of, v), n in (software or {}).items()
    ]
    lines += [f"process_start_time_seconds {started.timestamp()}"] if started else []
    return ("\n".join([*lines, more]) + "\n").encode()


def read(text: bytes, broker: str = "1", at: datetime = NOW, *, is_named: bool = True) -> Page:
    return page_of(text, broker, at, is_named=is_named)


def exporter(folder: Path) -> tuple[str, str]:
    """Return the option of a JVM that starts jmx_exporter, from Maven, as the page configures it; and its URL."""
    wanted = Download("jmx_exporter", ("io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1",), None)
    (jar,) = fetched(wanted, cache_folder() / "jmx-agent" / "1.0.1").glob("*.jar")
    (folder / "agent.yml").write_text(CONFIGURATION)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    return f"-javaagent:{jar}={port}:{folder / 'agent.yml'}", f"http://127.0.0.1:{port}/metrics"
