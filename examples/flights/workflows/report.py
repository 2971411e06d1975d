"""The report: the lower end of the diamond, and the page made from it."""

from pathlib import Path
from typing import Any

from external import stored
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from freshline import asset, on_upstream_update, unique

PUBLISHED = Path("published")


@asset("report.daily", auto=on_upstream_update(), checks=[unique("day")])
def daily(weather_impact: DataFrame, carriers_scorecard: DataFrame, carriers_daily: DataFrame) -> DataFrame:
    """Summarize each day: traffic, delays, the effect of the weather, and the delay of the best carrier."""
    best = carriers_scorecard.filter("flights >= 100").orderBy(sf.desc("on_time_percent"), "carrier").limit(1)
    fared = carriers_daily.join(best.select("carrier"), "carrier").select(
        "day", sf.col("name").alias("best_carrier"), sf.col("delay").alias("its_delay")
    )
    bad = sf.col("weather") != "fair"
    days = weather_impact.groupBy("day").agg(
        sf.sum("flights").alias("flights"),
        sf.sum("cancelled").alias("cancelled"),
        sf.sum(sf.when(bad, sf.col("hours")).otherwise(0)).alias("rough_hours"),
        sf.round(sf.max(sf.when(bad, sf.col("delay"))), 1).alias("rough_delay"),
        sf.round(sf.max(sf.when(~bad, sf.col("delay"))), 1).alias("fair_delay"),
    )
    return days.join(fared, "day", "left")


@asset("report.bulletin", auto=on_upstream_update())
def bulletin(report_daily: DataFrame, routes_busiest: DataFrame, ctx: Any) -> dict[str, Any]:
    """Write the page outside the warehouse; Freshline keeps its version and its payload."""
    top = routes_busiest.groupBy("origin", "destination").agg(sf.sum("flights").alias("flights"))
    busiest = top.orderBy(sf.desc("flights"), "destination").first()
    lines = [f"{row.day}: {row.flights} flights, {row.cancelled} cancelled" for row in sorted(report_daily.collect())]
    if busiest:
        lines.append(f"busiest: {busiest.origin} to {busiest.destination}, {busiest.flights} flights")
    PUBLISHED.mkdir(exist_ok=True)
    page = PUBLISHED / f"{ctx.run_id}.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return stored("report.bulletin", {"lines": lines}, file=str(page))
