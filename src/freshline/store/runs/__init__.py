"""The worker's transactions: claim, steps, publication, end of a run."""
