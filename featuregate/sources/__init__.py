"""Where polls get their answers: the brokers of a cluster."""
