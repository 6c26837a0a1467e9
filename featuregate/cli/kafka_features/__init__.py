"""The drop-in for kafka-features: its argument lists, its output and its exit codes."""
