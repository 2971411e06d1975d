"""Versions of tables: rollback, Delta log bookkeeping, vacuum."""
