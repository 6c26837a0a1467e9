"""Kafka's messages and their bytes, without I/O. Pure.

- `featuregate.wire.session` is the protocol of one connection, as a state machine;
- `featuregate.wire.frames` has length prefixes, headers and correlation ids;
- `featuregate.wire.api_versions`, `featuregate.wire.cluster`, `featuregate.wire.configs`,
  `featuregate.wire.update_features` and `featuregate.wire.sasl` have the messages, on top of
  `featuregate.wire.message`;
- `featuregate.wire.readers` and `featuregate.wire.writers` have the primitive types.
"""
