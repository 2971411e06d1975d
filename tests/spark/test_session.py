"""What a session takes while Spark runs, as the definitions believe it and as Spark itself says."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from freshline.definitions.spark import OWN, STATIC_SQL, is_runtime
from freshline.spark.session import EVERYWHERE

pytestmark = pytest.mark.spark


def test_static_settings_are_those_that_spark_refuses(spark: SparkSession) -> None:
    """Validation refuses exactly those settings of SQL that Spark would refuse on a session, none more."""
    names = [row["key"] for row in spark.sql("SET -v").collect()]
    assert len(names) > 200
    static = {name for name in names if name.startswith("spark.sql.") and not spark.conf.isModifiable(name)}
    assert static <= STATIC_SQL
    assert [name for name in STATIC_SQL if spark.conf.isModifiable(name)] == []


def test_what_every_step_sets_is_not_the_users(spark: SparkSession) -> None:
    """A setting that Freshline gives every session cannot be given by a workflow, and a session takes it."""
    session = spark.newSession()
    for name, value in EVERYWHERE.items():
        assert name in OWN
        assert is_runtime(name)
        session.conf.set(name, value)
