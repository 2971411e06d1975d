"""The hash of the project's code as it is now: what this worker may execute (R10.3)."""

from __future__ import annotations

from pathlib import Path

from freshline.definitions.fingerprint import code_hash, code_signature


class Code:
    """Notices changes by time stamps and sizes, and hashes only then."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._signature: object = None
        self._hash = ""

    def current(self) -> str:
        """The hash of this moment."""
        signature = code_signature(self._root)
        if signature != self._signature:
            self._hash = code_hash(self._root)
            self._signature = signature
        return self._hash
