"""Turns lines of broker logs into rows. Pure."""
