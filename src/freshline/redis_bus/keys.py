"""Everything that Freshline stores in Redis: three streams, a consumer group, and a pub/sub channel."""

from __future__ import annotations

EVENTS = "freshline:events"  # all events in the order of positions, trimmed to about FRESHLINE_BUS_LENGTH
INBOUND = "freshline:events:in"  # reports of outside producers; a message is deleted once it is handled
DEAD = "freshline:events:dead"  # refused messages, trimmed to about FRESHLINE_BUS_DEAD_LENGTH
NOTIFICATIONS = "freshline:bells"  # pub/sub: names of the services that have work

GROUP = "freshline"
# One name for all materializers: a message that one of them received and did not acknowledge is handled first by the
# next one.
CONSUMER = "freshline"
