"""Spark: sessions, tables, fingerprints and checks. Only `tables` may be imported without loading PySpark."""
