"""What a cluster can do, as values: the answers of its brokers, the view that they merge into, and its JSON. Pure."""
