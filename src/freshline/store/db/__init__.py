"""Connections, transactions, named SQL and migrations."""
