"""The data source ``kafka_features``: what every broker can do, as a table."""
