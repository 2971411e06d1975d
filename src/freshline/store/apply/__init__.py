"""Stores definitions: the difference, the writes, and a preview of what would run."""
