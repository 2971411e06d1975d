"""Alert rules, incidents and messages."""
