"""Transactional producers, and the transactions that they run."""
