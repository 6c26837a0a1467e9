"""Literal types that several rooms use."""

from __future__ import annotations

from typing import Literal

Role = Literal["broker", "controller"]
"""The kind of nodes that the client talks to."""

BrokerListSource = Literal["cluster", "bootstrap"]
"""Where the broker list comes from: the cluster, or a bootstrap list that names every broker."""
