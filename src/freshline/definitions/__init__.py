"""Definitions of users: models, YAML, JSON and Python, validation, fingerprints."""
