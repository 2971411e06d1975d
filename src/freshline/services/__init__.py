"""Background services: one file each, `run_once` apart from the loop."""
