"""Read-only queries, as JSON data."""
