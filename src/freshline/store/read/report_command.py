"""The command that reports a source."""

from __future__ import annotations


def report_command(asset_id: str, *, append: bool, partitioned: bool) -> str:
    """Return the command that reports a source. Each report of an append source with a path names a file."""
    key = " --partition KEY" if partitioned else ""
    return f"freshline report {asset_id}{key}" + (' --payload \'{"path": "..."}\'' if append else "")
