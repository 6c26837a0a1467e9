"""A relay polls the brokers for many processes, and serves the views of clusters by HTTP.

- `featuregate_relay.app` answers requests from discoverers;
- `featuregate_relay.flags.ofrep` answers OpenFeature clients of other languages;
- `featuregate_relay.server` runs the app on a socket;
- `featuregate_relay.command` is ``featuregate serve``.
"""
