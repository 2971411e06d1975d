"""Transactions that people and other systems ask for: reports, manual runs, pauses, tokens."""
