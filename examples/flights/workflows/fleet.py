"""The planes: refreshed by time alone, as the age of the fleet need not follow every delivery."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from freshline import asset, automatic, ttl


@asset("fleet.usage", freshness=ttl(seconds=20), auto=automatic(priority=300))
def usage(flights_clean: DataFrame, planes_raw: DataFrame) -> DataFrame:
    """Flights by the manufacturer and age of the machine."""
    planes = planes_raw.select("tailnum", "manufacturer", sf.col("year").alias("built"))
    age = (sf.year("day") - sf.col("built")).alias("age")
    return flights_clean.join(planes, "tailnum").groupBy("manufacturer", age).agg(sf.count("*").alias("flights"))
