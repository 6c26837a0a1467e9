"""Literal types that several rooms use."""

from __future__ import annotations

from typing import Literal

__all__ = ["BrokerListSource", "Role"]

Role = Literal["broker", "controller"]
"""Which nodes are asked."""

BrokerListSource = Literal["cluster", "bootstrap"]
"""Where the list of brokers comes from: the cluster tells it, or the bootstrap list names every broker."""
