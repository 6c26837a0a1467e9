"""What the proofs of the producer switch stand on: a ledger, apps in and out of process, and faults."""
