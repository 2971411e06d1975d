"""Strict models of what users write, and their JSON Schema."""
