"""The event bus: Redis, if FRESHLINE_EVENT_BUS names one. It changes latency, never correctness."""
