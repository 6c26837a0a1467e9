"""An app over a fake cluster, and a model of what it must see and decide."""
