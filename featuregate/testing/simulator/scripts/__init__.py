"""Scripts of events, the invariants that must hold while one runs, and the search for a script that breaks them."""
