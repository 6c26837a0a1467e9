"""Simulated clusters with KRaft (KIP-778). Pure."""
