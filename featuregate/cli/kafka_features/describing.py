"""``describe`` of the drop-in. It sends no update, so nothing that plans or sends updates is imported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from featuregate.catalog import tool_table
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.feature_table import columns, rows
from featuregate.cli.kafka_features.client import (
    API_SECONDS,
    ERRORS,
    client_not_created,
    create,
    log,
    nothing_resolves,
    upstream_error,
)
from featuregate.config import Settings
from featuregate.errors import FeatureGateError
from featuregate.sources.brokers import BrokerSource
from featuregate.sources.one_node import NoSuchNode, OneNodeSource


def describe(values: Mapping[str, Any]) -> str:
    """Return the table of features, of all brokers or of one node. Raises `CommandError`."""
    settings = create(partial(Settings.parse, total_timeout=API_SECONDS), values)
    node_id = values.get("node_id")
    if node_id is not None and node_id < 0:
        raise CommandError(f"Invalid node id {node_id}: must be non-negative.", FAILED)
    source = BrokerSource(settings) if node_id is None else OneNodeSource(settings, node_id)
    try:
        view = asyncio.run(source.fetch()).merge()
    except NoSuchNode as error:
        log(error)
        text = "Timed out waiting for a node assignment. Call: describeFeatures"
        raise CommandError(f"{ERRORS}.TimeoutException: {text}", FAILED) from error
    except FeatureGateError as error:
        if nothing_resolves(error):
            raise client_not_created(error) from error
        log(error)
        kind, text = upstream_error(error, "describeFeatures")
        raise CommandError(f"{ERRORS}.{kind}: {text}", FAILED) from error
    return columns(rows(view, tool_table().level_name))
