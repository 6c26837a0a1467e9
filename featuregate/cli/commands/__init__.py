"""One file for each command; each is imported only when it is asked for."""
