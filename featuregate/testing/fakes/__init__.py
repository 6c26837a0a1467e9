"""Fake brokers on the loopback interface that speak the real protocol."""
