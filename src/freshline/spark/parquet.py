"""Parquet options of the files of a table; they override the settings of the session and the server."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from freshline.definitions.schema.workflow import Table

WRITE_OPTIONS = {
    # With version 2 a task that dies while it commits leaves files among the others.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # No checksum file beside each file: sealing would remove it, and it costs a large write 5 percent.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    # A checksum in each page, so that a changed bit is an error and not another row (docs/adr/0020).
    "parquet.page.write-checksum.enabled": "true",
}
# Spark reads pages without looking at their checksums unless it is told to.
READ_OPTIONS = {"parquet.page.verify-checksum.enabled": "true"}
LONG_DIGITS = 18  # of a decimal that fits into a long


def write_options(table: Table, schema: StructType) -> dict[str, str]:
    """Return the options of a write."""
    return {**WRITE_OPTIONS, "parquet.writer.version": f"PARQUET_{encoding_version(table, schema)}_0"}


def encoding_version(table: Table, schema: StructType) -> int:
    """Return the version of the files' encodings: those of 2 are smaller and faster to write (ADR 0013)."""
    return table.parquet or (1 if _has_wide_decimals(schema) else 2)


def _has_wide_decimals(kind: DataType) -> bool:
    """Return whether there are decimals of fixed-length bytes, which Polars cannot read in version 2."""
    match kind:
        case DecimalType():
            return bool(kind.precision > LONG_DIGITS)
        case StructType():
            return any(_has_wide_decimals(one.dataType) for one in kind.fields)
        case ArrayType():
            return _has_wide_decimals(kind.elementType)
        case MapType():
            return _has_wide_decimals(kind.keyType) or _has_wide_decimals(kind.valueType)
    return False
