"""Claims runs, holds their leases, executes their steps in runner processes, publishes."""
