"""Single lines of request logs: what each says, or why it is in quarantine."""
