"""``make soak``: the fault harnesses run in a row with random seeds, and a ledger keeps what each run has counted."""
