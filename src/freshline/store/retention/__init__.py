"""Deletes old history in bounded batches."""
