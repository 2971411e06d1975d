"""From a directory of files to a table that is appended to: what reads it can then ask for what is new."""

from pyspark.sql import DataFrame

from freshline import asset, on_upstream_update


@asset(
    "orders.all",
    inputs={"before": "orders.all"},  # the table itself, as the last run left it; None on the first run
    table={"mode": "append", "onReplacedInput": "append"},  # a source is read as a whole, and yet adds to the table
    auto=on_upstream_update(),
)
def collect(orders_raw: DataFrame, before: DataFrame | None) -> DataFrame:
    """Every order once, however often the directory is read, and if two days arrive at the same time."""
    return orders_raw if before is None else orders_raw.join(before, "id", "left_anti")
