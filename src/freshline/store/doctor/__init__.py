"""Checks the invariants of an installation and repairs what can be repaired."""
