"""What a session takes while Spark runs, as the definitions believe it and as Spark itself says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from freshline.definitions.schema.spark import OWN, STATIC_SQL, is_runtime
from freshline.spark.session import NEW_MB_PER_GB, SESSION_CONF

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
    for name, value in SESSION_CONF.items():
        assert name in OWN
        assert is_runtime(name)
        session.conf.set(name, value)


def test_a_warm_session_collects_in_parallel_and_keeps_little_for_new_objects(spark: SparkSession) -> None:
    """With one thread all tasks would stand still for it; of a third of its memory, a warm session would keep all."""
    beans = spark._jvm.java.lang.management.ManagementFactory
    collectors = {bean.getName() for bean in beans.getGarbageCollectorMXBeans()}
    assert collectors == {"PS Scavenge", "PS MarkSweep"}
    options = list(beans.getRuntimeMXBean().getInputArguments())
    most = int(spark.conf.get("spark.driver.memory").removesuffix("g")) * NEW_MB_PER_GB
    assert [one for one in options if one.startswith("-XX:MaxNewSize=")] == [f"-XX:MaxNewSize={most}m"]


def test_the_ports_of_the_driver_need_a_secret_that_nobody_can_read(spark: SparkSession) -> None:
    """Another user of the machine cannot talk to the driver: Spark makes a random secret, which is in memory only."""
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.driver.host"] == "127.0.0.1"
    pid = spark.sparkContext._gateway.proc.pid
    shown = Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text() + str(settings)
    assert "spark.authenticate=true" in shown
    assert "spark.authenticate.secret" not in shown
    assert spark.range(10).repartition(3).count() == 10
