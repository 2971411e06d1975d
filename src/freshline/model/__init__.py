"""Enums and frozen records that every other package shares."""
