"""The numbers of all advisory locks. Each lock belongs to a transaction and ends with it.

The locks of Delta logs have no number: `lock_log` in sql/tables.sql hashes the name of the table.
"""

from __future__ import annotations

# The prefix is "fres" in ASCII, so that other users of the same database are unlikely to choose the same numbers.
APPLY = 0x66726573_01  # one apply, or repair of the catalogue, at a time
SEQUENCER = 0x66726573_02  # one process numbers events at a time, so that positions follow the order of commits
PRUNER = 0x66726573_03  # one process creates and drops event partitions and prunes at a time
REDIS_CONSUMER = 0x66726573_04  # one process reads the incoming Redis stream at a time
PROPOSALS = 0x66726573_05  # one process proposes backfills at a time, so that connected workflows have one proposal
MIGRATIONS = 0x66726573_68  # one process creates the table of migrations at a time
