"""The alias for free-form JSON objects."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object whose keys the code does not know: user metadata, evidence, a document of another system.

Use a dataclass, NamedTuple or TypedDict wherever the keys are known.
"""
