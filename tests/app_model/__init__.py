"""An app over a simulated cluster, and a model of what it must see and decide."""
