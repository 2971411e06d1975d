"""The filters of listings that select by name."""

from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """What entries of a listing are about. All that are given must hold.

    `workflow`: a slug or a pattern. `asset`: an asset or a pattern; it stands for the workflows that produce it.
    `project`: the name of a project. `partition`: a partition of the one asset or workflow.
    """

    workflow: str | None = None
    asset: str | None = None
    project: str | None = None
    partition: str | None = None


EVERYTHING = About()
