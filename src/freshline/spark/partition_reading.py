"""Reads the partitions of an input that a run is pinned to, in as few scans as possible.

Partitions of a table with equal columns are one scan, however many there are. The union of a DataFrame for each of a
year's days would take Spark seconds to analyse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from freshline.model.partition_pins import groups
from freshline.model.run import PinnedInput
from freshline.spark.reading import load, load_source_paths, load_table_paths, union
from freshline.spark.windows import cut_to_window
from freshline.storage.base import Storage


def load_partitions(
    session: SparkSession, storage: Storage, pinned: PinnedInput, *, new: bool = False, local: bool = False
) -> DataFrame:
    """Return the rows of all pinned partitions of an input. `new`: only those that are new to the step.

    Without any partition it is an empty table with the columns of another one.
    """
    found = [_load_group(session, storage, group, new=new, local=local) for group in groups(pinned)]
    if not found:
        example = replace(pinned, partitions=None, cut=None)
        return cut_to_window(load(session, storage, example, local=local).limit(0), pinned)
    return cut_to_window(union(found), pinned)


def _load_group(
    session: SparkSession, storage: Storage, group: Sequence[PinnedInput], *, new: bool, local: bool
) -> DataFrame:
    first = group[0]
    location = first.location or {}
    if location.get("partitionBy"):  # Spark finds these columns below a single directory only
        return union(load(session, storage, one, since=one.since if new else None, local=local) for one in group)
    if "paths" not in location:
        read = [one for one in group if not new or one.since is None]
        rows = load_source_paths(
            session, first, [str((one.location or {})["path"]) for one in read or group], local=local
        )
        return rows if read else rows.limit(0)
    chosen = [(one, path) for one in group for path in _directories(one, new=new)]
    rows = load_table_paths(session, storage, first, chosen or [(first, _directories(first, new=False)[-1])])
    return rows if chosen else rows.limit(0)


def _directories(one: PinnedInput, *, new: bool) -> list[str]:
    parts = one.parts or [(0, path) for path in (one.location or {})["paths"]]
    return [path for version, path in parts if not new or one.since is None or version > one.since]
