"""The numbers of a discoverer for monitoring.

- `featuregate_metrics.prometheus` is a collector for prometheus-client (extra ``prometheus``);
- `featuregate_metrics.opentelemetry` has instruments and events for OpenTelemetry (extra ``opentelemetry``);
- `featuregate_metrics.counts` counts events for both; pure.
"""
