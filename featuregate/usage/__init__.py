"""Usage reports: what an app says of its gates, so that operators know who relies on a feature."""
