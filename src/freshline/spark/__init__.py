"""Spark: sessions, reading and writing, fingerprints and checks. Nearly all of it loads PySpark, which takes time."""
