"""A cluster of real sockets inside this process: the mock cluster of librdkafka, which speaks Kafka's protocol."""

from __future__ import annotations

from confluent_kafka import Producer


class Cluster:
    """Three brokers; every topic has four partitions. `servers`: where clients connect to."""

    def __init__(self) -> None:
        settings = {"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0}
        self._producer = Producer(settings)
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{one.host}:{one.port}" for one in brokers)

    def produce(self, topic: str, *counts: int, size: int = 10) -> None:
        """Append this many records to partition 0, 1 and so on, and wait until the brokers have them."""
        for partition, count in enumerate(counts):
            for _ in range(count):
                self._producer.produce(topic, b"x" * size, partition=partition)
                self._producer.poll(0)
        assert self._producer.flush(10) == 0
