"""Finds the delivery of an append source that cannot be read together with those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from freshline.errors import JobError
from freshline.model.deliveries import Delivery, advice
from freshline.spark.failures import explain
from freshline.spark.read_failures import reason

MOST_SEARCHED = 10_000

Read = Callable[[Sequence[Delivery]], DataFrame]
"""Opens some deliveries together; raises an error of Spark if that is not possible."""


def delivery_error(asset_id: str, read: Read, chosen: Sequence[Delivery], error: Exception) -> JobError | None:
    """Return the error for deliveries that cannot be opened, with the one that is the reason.

    None if it is not found: there are too many to search, or they can be read by now.
    """
    if not 0 < len(chosen) <= MOST_SEARCHED:
        return None
    good = _readable(read, chosen)
    if good == len(chosen):
        return None
    one = chosen[good]
    try:
        alone = read([one]).schema
    except Exception as own:  # noqa: BLE001 - data sources raise anything
        why = reason(own) or explain(own) or type(own).__name__
    else:
        why = _differing(read(chosen[:good]).schema, alone) or reason(error) or type(error).__name__
    return JobError(
        f"asset {asset_id!r} cannot be read: delivery {one.number} ({one.path}): {why}",
        hint=advice(asset_id, one.number),
    )


def _readable(read: Read, chosen: Sequence[Delivery]) -> int:
    """Return how many deliveries from the first one can be opened together, by bisection."""
    good, bad = 0, len(chosen) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _ = read(chosen[:middle]).schema
        except Exception:  # noqa: BLE001 - data sources raise anything
            bad = middle
        else:
            good = middle
    return good


def _differing(before: StructType, now: StructType) -> str | None:
    """Return the first column whose type differs, as a sentence."""
    known = {field.name.lower(): field.dataType.simpleString() for field in before.fields}
    for field in now.fields:
        kind, old = field.dataType.simpleString(), known.get(field.name.lower())
        if old is not None and old != kind:
            return f"its column {field.name!r} is {kind}, and {old} in the deliveries before it"
    return None
