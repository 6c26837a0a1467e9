"""A relay polls the brokers for many processes, and serves the views of clusters by HTTP.

- `featuregate_relay.app` answers requests from discoverers;
- `featuregate_relay.ofrep` answers those of OpenFeature's remote evaluation, with the flags of `featuregate_relay.flags`;
- `featuregate_relay.server` runs the app on a socket;
- `featuregate_relay.command` is ``featuregate serve``.
"""
