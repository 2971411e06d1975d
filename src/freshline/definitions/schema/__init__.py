"""Models of definitions, and their JSON Schema."""
