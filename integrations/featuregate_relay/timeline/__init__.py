"""What has happened to a cluster: its levels, the releases of its brokers and its gates, over restarts of the relay.

- `featuregate_relay.timeline.timeline` keeps the entries;
- `featuregate_relay.timeline.changes` says what differs between two moments.
"""
