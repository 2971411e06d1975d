"""What is the newest is read from an index, whatever the number of partitions (docs/semantics.md#R13.17)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from freshline.store.db.queries import load
from tests.store_harness import Lab, laboratory

KEYS, EVALUATION = load("partitions"), load("evaluation")
MANY = 10_000
FILL = """
INSERT INTO assets (id, partitioning) VALUES ('hours', '{}'), ('both', '{}'), ('turned', '{}'), ('seen', '{}'),
       ('rates', NULL);
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, produced_at, event_id)
SELECT a.id, CASE a.id WHEN 'hours' THEN k.hour WHEN 'both' THEN k.hour || '|eu' WHEN 'turned' THEN 'eu|' || k.hour
                       ELSE md5(k.hour) END, 1, 'v', true, now(), freshline_id()
  FROM unnest(ARRAY['hours', 'both', 'turned', 'seen']) a (id),
       (SELECT to_char('2024-01-01'::timestamp + n * interval '1 hour', 'YYYY-MM-DD"T"HH24') AS hour
          FROM generate_series(0, %(many)s) n) k;
INSERT INTO heads (asset_id, partition_key, sequence, last_sequence, data_version, produced_at)
SELECT asset_id, partition_key, 1, 1, 'v', now() FROM snapshots;
INSERT INTO partition_keys (asset_id, partition_key, first_seen)
SELECT asset_id, partition_key, now() - random() * interval '1 year' FROM heads WHERE asset_id = 'seen';
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, produced_at, event_id)
SELECT 'rates', '', n, 'v' || n, true, '2024-01-01'::timestamptz + n * interval '1 hour', freshline_id()
  FROM generate_series(1, %(many)s) n;
ANALYZE heads, partition_keys, snapshots;
"""
TIMES = {"first": "2024-01-01T00", "last": "2030-01-01T00", "count": 3}
LAST_CHANGE = """
SELECT y.sequence FROM snapshots y
 WHERE y.asset_id = %(asset)s AND y.partition_key = '' AND y.changed AND y.produced_at < %(until)s::timestamptz
 ORDER BY y.produced_at DESC, y.sequence DESC LIMIT 1
"""
PROBES: list[tuple[str, dict[str, Any], int]] = [
    (KEYS["newest_times"], {"asset": "hours", **TIMES}, 3),
    (KEYS["newest_in_dimension"], {"asset": "both", "place": 1, **TIMES}, 3),
    (KEYS["newest_in_dimension"], {"asset": "turned", "place": 2, **TIMES}, 3),
    (KEYS["newest_seen"], {"asset": "seen", "count": 3}, 3),
    (KEYS["seen_from"], {"asset": "seen", "key": "cfcd208495d565ef66e7dff9f98764da"}, 1),
    (KEYS["seen_last"], {"asset": "seen", "at": datetime(2030, 1, 1).astimezone()}, 1),
    (LAST_CHANGE, {"asset": "rates", "until": "2024-06-01"}, 1),
]


@pytest.fixture
def lab(database_url: str) -> Iterator[Lab]:
    """Yield a fresh installation."""
    with laboratory(database_url) as lab:
        yield lab


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a plan node and all below it."""
    yield plan
    for one in plan.get("Plans", ()):
        yield from nodes(one)


@pytest.mark.parametrize("number", range(len(PROBES)))
def test_the_newest_cost_as_much_as_are_read(number: int, lab: Lab) -> None:
    """No node reads more rows than a few times what is asked for, among 10,000 partitions or snapshots."""
    query, parameters, most = PROBES[number]
    with lab.database.connection() as connection:
        for statement in FILL.split(";\n"):
            if statement.strip():
                connection.execute(statement, {"many": MANY} if "many" in statement else None)
        explained = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", parameters).fetchone()
    assert explained is not None
    for node in nodes(explained["QUERY PLAN"][0]["Plan"]):
        read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        assert read <= 4 * most, node
        assert node["Node Type"] != "Seq Scan", node


def test_the_last_change_is_read_as_in_the_evaluation() -> None:
    """The statement that was explained is the one that the evaluation runs."""
    evaluated = " ".join(EVALUATION["load_states"].split())
    assert "y.partition_key = '' AND y.changed AND y.produced_at < e.until" in evaluated
    assert "ORDER BY y.produced_at DESC, y.sequence DESC LIMIT 1" in evaluated
