"""Simulated clusters with ZooKeeper (KIP-584). Pure."""
