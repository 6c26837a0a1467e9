"""Reads who sent refused requests, where lines are kept: what else was seen on the same connection."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from featuregate_fleet.readiness.evidence import RefusedClient, RefusedVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_fleet.tables.folder import Tables

_REQUEST: Final = ("client_host", "api_key", "version")
_BEFORE: Final = "interval 1 day"
"""A connection has the number of a port, which another client gets some day."""
_AFTER: Final = "interval 1 minute"
"""A request may be answered, and so logged, after the next one on its connection was refused."""


def refused_clients(tables: Tables) -> Mapping[RefusedVersion, frozenset[RefusedClient]]:
    """Return the clients whose connections were closed because of a version; nothing where no lines are kept."""
    if tables.version("log_lines") is None:
        return {}
    lines = tables.read("log_lines").where("connection is not null")
    refused = lines.where("outcome = 'refused'").select("broker", "connection", f.col("time").alias("at"), *_REQUEST)
    who = f.struct(
        "principal", "client_id", f.nullif(f.concat_ws(" ", "software_name", "software_version"), f.lit("")).alias("is")
    )
    others = lines.where("outcome = 'completed'").select("broker", "connection", "time", who.alias("who"))
    near = f.col("time").between(f.col("at") - f.expr(_BEFORE), f.col("at") + f.expr(_AFTER))
    found = refused.join(others, ["broker", "connection"]).where(near).select(*_REQUEST, "who.*").distinct()
    clients: dict[RefusedVersion, set[RefusedClient]] = defaultdict(set)
    for row in found.collect():
        request = RefusedVersion(row["client_host"], row["api_key"], row["version"])
        clients[request].add(RefusedClient(row["client_id"], row["principal"], row["is"]))
    return {request: frozenset(of_it) for request, of_it in clients.items()}
