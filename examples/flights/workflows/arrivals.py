"""The deliveries, counted in plain Python: the step needs no Spark and runs before Spark has started."""

import csv
from pathlib import Path
from typing import Any

from external import stored

from freshline import asset, on_upstream_update


@asset("flights.arrivals", kind="python", auto=on_upstream_update(priority=0))
def arrivals(flights_raw: Any) -> dict[str, Any]:
    """Count the flights of each delivered day in the files of this version."""
    days = {}
    for file in sorted(Path(flights_raw.payload["path"]).glob("*.csv")):
        with file.open(newline="", encoding="utf-8") as rows:
            days[file.stem] = len({tuple(row) for row in csv.reader(rows)}) - 1  # without the header
    return stored("flights.arrivals", {"days": days, "flights": sum(days.values())})
