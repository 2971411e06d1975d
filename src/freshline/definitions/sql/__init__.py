"""Checks of Spark SQL without Spark: syntax, the tables that a query reads, and queries in files."""
