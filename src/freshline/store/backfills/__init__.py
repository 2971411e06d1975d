"""Backfills: durable demands, their turns, and for whom a success counts."""
