"""What a session takes while Spark runs, as the definitions believe it and as Spark itself says."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from freshline.definitions.spark import OWN, STATIC_SQL, is_runtime
from freshline.spark.session import EVERYWHERE

pytestmark = pytest.mark.spark


def test_static_settings_are_those_that_spark_refuses(spark: SparkSession) -> None:
    """Validation refuses exactly those settings of SQL that Spark would refuse on a session, none more."""
    known = spark._jvm.org.apache.spark.sql.internal.SQLConf
    names = [entry.key() for entry in known.getConfigEntries()]
    assert len(names) > 500
    static = {name for name in names if name.startswith("spark.sql.") and known.isStaticConfigKey(name)}
    assert static == STATIC_SQL


def test_what_every_step_sets_is_not_the_users(spark: SparkSession) -> None:
    """A setting that Freshline gives every session cannot be given by a workflow, and a session takes it."""
    session = spark.newSession()
    for name, value in EVERYWHERE.items():
        assert name in OWN
        assert is_runtime(name)
        session.conf.set(name, value)
