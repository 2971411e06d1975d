"""Sends messages through Apprise, in a process of its own that can reach nothing else."""
