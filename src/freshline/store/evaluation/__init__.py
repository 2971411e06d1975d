"""The materializer's transactions: inbox, decisions, timers."""
