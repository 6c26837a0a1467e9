"""Changes of finalized features: predicted answers of the controller, affected gates, and the client."""
