"""The configuration of a relay, from a TOML file or from options."""
