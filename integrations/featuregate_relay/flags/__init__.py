"""Flags, and the protocol by which OpenFeature clients ask for them."""
