"""The kind `kafka` on librdkafka's mock cluster: each record is in exactly one range; what breaks that is said."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from freshline.definitions.schema.watch import KafkaWatch
from freshline.model.json import Json
from freshline.watching import kafka
from freshline.watching.look import Look, LookContext, LookError, Mode
from freshline.watching.notes import SHOWN
from freshline.watching.offsets import Ends, Topic, compare
from tests.watching.kafka_cluster import Cluster
from tests.watching.looks import NOW, context


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """Return a cluster whose topics exist as soon as something is written to them."""
    return Cluster()


def look(servers: str, topic: str, mode: Mode = "append", position: Json | None = None, **more: Any) -> Look:
    """Look at a topic."""
    spec = KafkaWatch.model_validate({"kafka": topic, "servers": servers, **more})
    return kafka.look(spec, mode, position, context({"PASSWORD": "canary-word"}, timeout_s=5))


def ranges(found: Look) -> list[dict[str, list[int]]]:
    """Return the ranges of all deliveries."""
    return [one.payload["ranges"] for one in found.found]


def test_each_record_is_in_exactly_one_delivery(cluster: Cluster) -> None:
    """The ranges of the looks join without gaps; a look without new records delivers nothing."""
    cluster.produce("orders", 3, 0, 2)
    first = look(cluster.servers, "orders")
    assert ranges(first) == [{"0": [0, 3], "2": [0, 2]}]
    assert first.found[0].payload["topic"] == "orders"
    assert first.summary == "Topic orders has 4 partitions, and 5 new records."
    assert ranges(look(cluster.servers, "orders", position=first.position)) == []
    cluster.produce("orders", 1, 1)
    second = look(cluster.servers, "orders", position=first.position)
    assert ranges(second) == [{"0": [3, 4], "1": [0, 1]}]
    assert second.found[0].key == look(cluster.servers, "orders", position=first.position).found[0].key
    assert second.conflicts == ()


def test_existing_records_can_be_ignored(cluster: Cluster) -> None:
    """The first look delivers nothing, and later ones what came after it."""
    cluster.produce("late", 3)
    first = look(cluster.servers, "late", existing="ignore")
    assert first.found == ()
    cluster.produce("late", 1, 2)
    second = look(cluster.servers, "late", position=first.position, existing="ignore")
    assert ranges(second) == [{"0": [3, 4], "1": [0, 2]}]


def test_a_snapshot_source_gets_a_version_of_all_offsets(cluster: Cluster) -> None:
    """It changes if and only if a record was added."""
    cluster.produce("state", 2)
    first = look(cluster.servers, "state", "snapshot")
    assert look(cluster.servers, "state", "snapshot", first.position).found == ()
    cluster.produce("state", 0, 0, 0, 1)
    second = look(cluster.servers, "state", "snapshot", first.position)
    assert second.found[0].data_version != first.found[0].data_version
    assert second.found[0].payload == {"topic": "state", "offsets": {"0": 2, "1": 0, "2": 0, "3": 1}}


def test_records_that_retention_deleted_are_a_conflict(cluster: Cluster) -> None:
    """What is left is delivered from its first offset on; the conflict stays visible in later looks."""
    cluster.produce("short", 1, size=900_000)
    first = look(cluster.servers, "short")
    for _ in range(8):  # a partition of the mock cluster keeps 5 MiB
        cluster.produce("short", 1, size=900_000)
    second = look(cluster.servers, "short", position=first.position)
    ((low, high),) = ranges(second)[0].values()
    assert (low > 1, high) == (True, 9)
    (conflict,) = second.conflicts
    assert f"offsets 1 to {low - 1}, were deleted before they were delivered" in conflict.message
    third = look(cluster.servers, "short", position=second.position)
    assert (third.found, third.conflicts) == ((), second.conflicts)


def test_a_topic_that_was_created_again_is_delivered_from_its_beginning(cluster: Cluster) -> None:
    """Here in another cluster, which has its own id, although it has as many records as were delivered."""
    cluster.produce("again", 2)
    first = look(cluster.servers, "again")
    other = Cluster()
    other.produce("again", 2, 1)
    second = look(other.servers, "again", position=first.position)
    assert ranges(second) == [{"0": [0, 2], "1": [0, 1]}]
    assert "The cluster is now" in second.conflicts[0].message
    assert look(other.servers, "again", position=second.position).found == ()


def test_a_topic_that_does_not_exist_is_an_error_and_is_not_made(cluster: Cluster) -> None:
    """A producer's client would make it."""
    for _ in range(2):
        with pytest.raises(LookError, match="topic typo cannot be read: Broker: Unknown topic or partition"):
            look(cluster.servers, "typo")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "cannot be read: Failed to get metadata: .*Connection refused"),
        ({"properties": {"security.protocol": "NO"}}, "the Kafka client refuses its settings: Invalid value"),
        ({"secrets": {"sasl.password": {"env": "ABSENT"}}}, "names the variable ABSENT, which is not set"),
        ({"secrets": {"sasl.mechanism": {"env": "PASSWORD"}, "security.protocol": {"env": "PASSWORD"}}}, "refuses"),
    ],
)
def test_errors_say_why(more: dict[str, Any], message: str) -> None:
    """And never show the value of a secret."""
    spec = KafkaWatch.model_validate({"kafka": "orders", "servers": "127.0.0.1:1", **more})
    with pytest.raises(LookError, match=message) as raised:
        kafka.look(spec, "append", None, context({"PASSWORD": "canary-word"}, timeout_s=0.3))
    assert "canary" not in str(raised.value)


def seen(position: Json | None, ends: dict[int, tuple[int, int]], at: LookContext | None = None) -> Look:
    """Compare a position with these offsets."""
    partitions = {number: Ends(*pair) for number, pair in ends.items()}
    return compare("append", position, Topic("t", None, partitions), at or context())


def test_a_new_partition_begins_at_its_first_offset() -> None:
    """The others go on where they were."""
    first = seen(None, {0: (0, 5)})
    assert ranges(seen(first.position, {0: (0, 6), 1: (2, 4)})) == [{"0": [5, 6], "1": [2, 4]}]


def test_an_end_below_the_position_means_a_new_topic() -> None:
    """Every partition begins again, also those that have more records than were delivered; keys are new ones."""
    first = seen(None, {0: (0, 5), 1: (0, 1)})
    again = seen(first.position, {0: (0, 2), 1: (0, 9)})
    assert ranges(again) == [{"0": [0, 2], "1": [0, 9]}]
    assert "Partition 0 ends at offset 2, and offsets up to 4 were delivered" in again.conflicts[0].message
    third = seen(again.position, {0: (0, 1), 1: (0, 1)})
    assert len({first.found[0].key, again.found[0].key, third.found[0].key}) == 3


def test_another_topic_begins_at_its_first_offset() -> None:
    """An edit of the definition keeps the position, and the offsets in it are those of the old topic."""
    first = seen(None, {0: (0, 5)})
    look = compare("append", first.position, Topic("other", None, {0: Ends(0, 9)}), context())
    assert ranges(look) == [{"0": [0, 9]}]
    assert look.conflicts[0].message.startswith("The watch follows topic other now; it followed t.")


def test_a_partition_that_is_missing_for_a_moment_is_not_new() -> None:
    """A cluster that starts may not know all partitions yet."""
    first = seen(None, {0: (0, 5), 1: (0, 5)})
    second = seen(first.position, {0: (0, 5)})
    assert ranges(seen(second.position, {0: (0, 5), 1: (0, 6)})) == [{"1": [5, 6]}]


def test_a_conflict_is_shown_for_a_week() -> None:
    """Then it is forgotten, and so are all but the newest of many."""
    position = seen(None, {0: (0, 5)}).position
    lost = seen(position, {0: (9, 9)})
    assert len(lost.conflicts) == 1
    late = context(now=NOW + SHOWN - timedelta(seconds=1))
    assert len(seen(lost.position, {0: (9, 9)}, late).conflicts) == 1
    assert seen(lost.position, {0: (9, 9)}, context(now=NOW + SHOWN)).conflicts == ()
    for number in range(30):
        position = seen(position, {0: (10 + 2 * number, 10 + 2 * number)}).position
    assert len(seen(position, {0: (100, 100)}).conflicts) == 20
