"""A move, carried out on a small cluster of this machine before it is carried out for real."""
