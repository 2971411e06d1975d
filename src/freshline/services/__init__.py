"""Background services, one file each. Each has a `run_once` apart from its loop."""
