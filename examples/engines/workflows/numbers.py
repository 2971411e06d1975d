"""Settings of Spark for a workflow. Where Spark runs is a setting of the worker."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from freshline import asset, automatic

SHOWN = ("spark.sql.shuffle.partitions", "spark.driver.memory", "spark.sql.session.timeZone")


@asset("numbers.remainders", auto=automatic(), spark={"conf": {"spark.sql.shuffle.partitions": 3}})
def remainders(ctx: Any) -> DataFrame:
    """Run on the warm Spark of the worker, with a setting for this workflow only."""
    log_settings(ctx)
    return ctx.spark.range(1000).groupBy((sf.col("id") % 7).alias("remainder")).count()


@asset("numbers.summed", spark={"size": "large", "conf": {"spark.driver.memory": "1100m"}})
def summed(ctx: Any, numbers_remainders: DataFrame) -> DataFrame:
    """Run on a separate Spark that starts for the run and stops after it: it accepts any setting."""
    log_settings(ctx)
    return numbers_remainders.agg(sf.sum("count").alias("numbers"))


def log_settings(ctx: Any) -> None:
    """Write settings of Spark into the log of the run."""
    for name in SHOWN:
        ctx.log.info("%s = %s", name, ctx.spark.conf.get(name, "not set"))
