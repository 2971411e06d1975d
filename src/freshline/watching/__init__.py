"""Watchers: look at what other systems write, and say what is new. Nothing here writes (docs/sources.md)."""
