"""Where a command gets its answers: the database or the HTTP API."""
