"""Changes of finalized features: what a controller will say, who would be affected, and the client that sends them."""
