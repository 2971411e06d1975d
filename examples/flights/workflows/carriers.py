"""The carriers: a branch of the diamond that starts at flights.clean and ends at report.daily."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from freshline import asset, between, on_upstream_update

LATE_MINUTES = 15
# While this file exists in the project's directory, the scorecard fails. The demo makes one, once.
OUTAGE = Path("outage.flag")


@asset("carriers.daily", auto=on_upstream_update(priority=5))
def daily(flights_clean: DataFrame, airlines_raw: DataFrame) -> DataFrame:
    """Flights, cancellations and delays per carrier and day."""
    per_day = flights_clean.groupBy("day", "carrier").agg(
        sf.count("*").alias("flights"),
        sf.count_if("cancelled").alias("cancelled"),
        sf.round(sf.avg("dep_delay"), 2).alias("delay"),
        sf.count_if(sf.col("arr_delay") <= LATE_MINUTES).alias("on_time"),
    )
    return per_day.join(airlines_raw, "carrier", "left")


@asset(
    "carriers.scorecard",
    auto=on_upstream_update(priority=5),
    checks=[between("on_time_percent", 0, 100)],
    retry=1,  # one try per run, so that a failure is a failed run ...
    backoff={"baseMs": 3000},  # ... which comes again by itself after this cooldown, twice as long each time
)
def scorecard(carriers_daily: DataFrame) -> DataFrame:
    """Who is on time, over all days so far."""
    if OUTAGE.exists():
        raise ConnectionError(f"the rating service does not answer ({OUTAGE} exists)")
    totals = carriers_daily.groupBy("carrier", "name").agg(
        sf.sum("flights").alias("flights"), sf.sum("cancelled").alias("cancelled"), sf.sum("on_time").alias("on_time")
    )
    percent = sf.round(100 * sf.col("on_time") / sf.col("flights"), 1)
    return totals.withColumn("on_time_percent", percent)
