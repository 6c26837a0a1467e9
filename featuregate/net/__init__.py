"""Carries bytes, decides nothing: TCP, TLS, SASL and bounds.

- `featuregate.net.probe` finds every node of a cluster and asks each;
- `featuregate.net.cluster_metadata` asks one who the others are;
- `featuregate.net.connection` is one connection: open, negotiate, authenticate, request, close;
- `featuregate.net.dial`, `featuregate.net.carrier`, `featuregate.net.tls`, `featuregate.net.sasl` and
  `featuregate.credentials.tokens` are its parts.

Every wait here has a bound, and every failure is a `FeatureGateError`.
"""
