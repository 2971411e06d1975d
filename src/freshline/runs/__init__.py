"""Executing runs: a supervisor that owns the lease, and runners in which user code and Spark live."""
