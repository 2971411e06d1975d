"""Partitions of assets and workflows in texts: `sales.daily@2024-01-31`, and many of them in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from freshline.model.state import reference
from freshline.plural import counted

MOST_NAMED = 3


def unit(one: Mapping[str, Any]) -> str:
    """Return the workflow of a run, a decision or an outcome, with its partition: `sales-daily@2024-01-31`."""
    return reference(one["workflowSlug"], one.get("partitionKey") or "")


def named(one: Mapping[str, Any]) -> str:
    """Return the asset of an input or an output, with its partition: `sales.daily@2024-01-31`."""
    return reference(one["assetId"], one.get("partitionKey") or "")


def few(names: Sequence[str], most: int = MOST_NAMED) -> list[str]:
    """Return the names; of many, the first ones and how many more there are."""
    if len(names) <= most + 1:
        return list(names)
    return [*names[:most], f"{len(names) - most} more"]


def few_partitions(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the changed inputs. Many partitions of one asset are one entry: `24 partitions of orders.raw`."""
    keys: dict[str, list[str]] = {}
    for one in changes:
        keys.setdefault(one["assetId"], []).append(named(one))
    return [
        name
        for asset_id, found in keys.items()
        for name in (found if len(found) <= MOST_NAMED else [f"{counted(len(found), 'partition')} of {asset_id}"])
    ]
