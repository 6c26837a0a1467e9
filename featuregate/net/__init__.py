"""Connections to brokers: TCP, TLS, SASL and time limits. This package moves bytes and decides nothing.

- `featuregate.net.probe` sends ApiVersions to every node of a cluster;
- `featuregate.net.cluster_metadata` fetches the list of these nodes, and connects to one of them;
- `featuregate.net.controller` sends a request to the active controller;
- `featuregate.net.sasl` authenticates a connection;
- `featuregate.net.connection` is one connection: open, negotiate, request, close;
- `featuregate.net.dial`, `featuregate.net.carrier` and `featuregate.net.tls` are its parts.

All of it runs in asyncio and in a short loop (`featuregate.loops`): each has a carrier, which moves the bytes.

Every wait has a limit, and every failure is a `FeatureGateError`.
"""
