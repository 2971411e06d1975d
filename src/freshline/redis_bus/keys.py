"""Everything that Freshline has in Redis: three streams, a consumer group, and a channel that stores nothing."""

from __future__ import annotations

EVENTS = "freshline:events"  # every event in the order of positions, trimmed to about FRESHLINE_BUS_LENGTH
INBOUND = "freshline:events:in"  # what outside producers say; a message is deleted when it was handled
DEAD = "freshline:events:dead"  # messages that were refused, trimmed to about FRESHLINE_BUS_DEAD_LENGTH
BELLS = "freshline:bells"  # pub/sub: the names of services that have something to do

GROUP = "freshline"
# One name for all materializers: what any of them was given and did not acknowledge is the next one's to handle first.
CONSUMER = "freshline"
