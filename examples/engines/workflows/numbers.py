"""What a workflow may ask of Spark. Nothing here says where Spark runs: that is a setting of the worker."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from freshline import asset, automatic

SHOWN = ("spark.sql.shuffle.partitions", "spark.driver.memory", "spark.sql.session.timeZone")


@asset("numbers.remainders", auto=automatic(), spark={"conf": {"spark.sql.shuffle.partitions": 3}})
def remainders(ctx: Any) -> DataFrame:
    """On the warm Spark of the worker, with a setting that holds for this workflow alone."""
    tell(ctx)
    return ctx.spark.range(1000).groupBy((sf.col("id") % 7).alias("remainder")).count()


@asset("numbers.summed", spark={"size": "large", "conf": {"spark.driver.memory": "1100m"}})
def summed(ctx: Any, numbers_remainders: DataFrame) -> DataFrame:
    """On a Spark of its own, which starts for the run and ends after it: that may take any setting."""
    tell(ctx)
    return numbers_remainders.agg(sf.sum("count").alias("numbers"))


def tell(ctx: Any) -> None:
    """What Spark says about itself, into the log of the run."""
    for name in SHOWN:
        ctx.log.info("%s = %s", name, ctx.spark.conf.get(name, "not set"))
