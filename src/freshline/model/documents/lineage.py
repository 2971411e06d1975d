"""The data that a run read and wrote, as database values."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from freshline.model.documents.asset import Schema
from freshline.model.documents.run import Check


class Dataset(TypedDict):
    """An input or output of a run. `partition_key` is empty for an asset without partitions."""

    asset_id: str
    partition_key: str
    data_version: str | None
    schema: Schema | None


class OutputDataset(Dataset):
    """An output of a run."""

    checks: list[Check] | None
    rows: int | None
    bytes: int | None


class RunLineage(TypedDict):
    """The inputs and outputs of a run."""

    queued_at: datetime
    inputs: list[Dataset]
    outputs: list[OutputDataset]
