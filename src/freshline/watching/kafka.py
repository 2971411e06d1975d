"""The kind `kafka`: the offsets of a topic. confluent-kafka asks the brokers for them; no record is read.

It asks as a consumer that is in no group and commits nothing, so a look leaves no trace in the cluster. It asks for the
end of what is decided (`read_committed`): a record of an open transaction is not in a range before it is committed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from freshline.definitions.schema.watch import KafkaWatch
from freshline.model.json import Json
from freshline.watching.look import Look, LookContext, LookError, Mode, masked, missing_extra
from freshline.watching.offsets import Ends, Topic, compare

if TYPE_CHECKING:
    from confluent_kafka import Consumer

MOST_PARTITIONS = 2_000  # their ranges fit into the payload of a report
SHORTEST_CALL_S = 0.1


class Errors:
    """What the client reports in the background: why a broker cannot be reached."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, error: Any) -> None:
        """Remember an error; "all brokers are down" says less than the one before it."""
        if self.last is None or "brokers are down" not in error.str():
            self.last = error.str()


def look(spec: KafkaWatch, mode: Mode, position: Json | None, context: LookContext) -> Look:
    """Ask for the offsets of all partitions and compare them with the position."""
    try:
        from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise missing_extra("`watch: {kafka: ...}`", "confluent-kafka", "kafka") from None
    secrets = {name: context.secret(variable, f"secrets.{name}") for name, variable in spec.secrets.items()}
    errors = Errors()
    try:
        consumer = Consumer(_settings(spec, secrets, context.timeout_s, errors))
    except KafkaException as error:
        raise LookError(f"the Kafka client refuses its settings: {_text(error, secrets)}") from None
    try:
        topic = _topic(consumer, spec.kafka, time.monotonic() + context.timeout_s)
    except KafkaException as error:
        consumer.poll(0)  # calls `errors`
        detail = f": {masked(errors.last, secrets.values())}" if errors.last else ""
        raise LookError(f"the offsets of topic {spec.kafka} cannot be read: {_text(error, secrets)}{detail}") from None
    finally:
        consumer.close()
    return compare(mode, position, topic, context, ignore_existing=spec.existing == "ignore")


def _settings(spec: KafkaWatch, secrets: dict[str, str], timeout_s: float, errors: Errors) -> dict[str, Any]:
    millis = max(1_000, round(timeout_s * 1_000))
    return {
        "client.id": "freshline",
        "socket.timeout.ms": millis,
        "socket.connection.setup.timeout.ms": millis,
        **spec.properties,
        **secrets,
        "bootstrap.servers": spec.servers,
        "group.id": "freshline",  # required, and never joined
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,  # a mistyped name must not make a topic
        "log_level": 0,  # it would write to stderr
        "error_cb": errors,
    }


def _topic(consumer: Consumer, name: str, ends: float) -> Topic:
    def left() -> float:
        return max(ends - time.monotonic(), SHORTEST_CALL_S)

    cluster = consumer.list_topics(name, timeout=left())
    found = cluster.topics[name]
    if found.error is not None:
        raise LookError(
            f"topic {name} cannot be read: {found.error.str()}", hint="see its name, and the rights of the user"
        )
    if len(found.partitions) > MOST_PARTITIONS:
        raise LookError(
            f"topic {name} has {len(found.partitions):,} partitions; a watch can follow at most {MOST_PARTITIONS:,}"
        )
    lows = _offsets(consumer, name, list(found.partitions), earliest=True, timeout_s=left())
    highs = _offsets(consumer, name, list(found.partitions), earliest=False, timeout_s=left())
    # Retention may pass the end that was decided when transactions are open for long.
    partitions = {one: Ends(lows[one], max(lows[one], highs[one])) for one in sorted(found.partitions)}
    return Topic(name, getattr(cluster, "cluster_id", None) or None, partitions)


def _offsets(
    consumer: Consumer, topic: str, partitions: list[int], *, earliest: bool, timeout_s: float
) -> dict[int, int]:
    """Return the first or the last offset of each partition, with one request per broker."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition  # noqa: PLC0415

    special = OFFSET_BEGINNING if earliest else OFFSET_END
    asked = [TopicPartition(topic, number, special) for number in partitions]
    answers = consumer.offsets_for_times(asked, timeout=timeout_s)
    for one in answers:
        if one.error is not None or one.offset < 0:
            why = one.error.str() if one.error is not None else f"the broker answered {one.offset}"
            raise LookError(f"the offsets of partition {one.partition} of topic {topic} cannot be read: {why}")
    return {one.partition: one.offset for one in answers}


def _text(error: Exception, secrets: dict[str, str]) -> str:
    detail = error.args[0]
    return masked(detail.str() if hasattr(detail, "str") else str(detail), secrets.values())
