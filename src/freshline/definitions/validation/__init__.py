"""Checks that need more than one field: within a workflow, across a project, and of entry points."""
