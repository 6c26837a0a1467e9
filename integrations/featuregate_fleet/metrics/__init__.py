"""Evidence without logs: what the metrics of brokers say of their clients. Neither Spark nor pyarrow is imported."""
