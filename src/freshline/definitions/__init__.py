"""What users write: strict models, YAML, JSON and Python, validation, fingerprints."""
