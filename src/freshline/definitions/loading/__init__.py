"""Loading of a project directory: its manifest, YAML and JSON documents, and Python modules."""
