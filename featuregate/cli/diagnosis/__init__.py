"""The findings of ``doctor``: about the configuration, the connection to each bootstrap address, and the cluster."""
