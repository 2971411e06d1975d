"""How the files of a table are written, whatever the settings of a session or a server say."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from freshline.definitions.schema.workflow import Table

WRITING = {
    # Whatever a server's own settings say: with v2 a task that dies while it commits leaves files among the others.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # No second file of checksums beside each file, which sealing would remove: it costs a large write 5 percent.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
LONG_DIGITS = 18  # of a decimal that fits into a long


def writing(table: Table, schema: StructType) -> dict[str, str]:
    """The options of a step's write."""
    return {**WRITING, "parquet.writer.version": f"PARQUET_{encodings(table, schema)}_0"}


def encodings(table: Table, schema: StructType) -> int:
    """The version of the files' encodings: those of 2 make smaller files, sooner (ADR 0013)."""
    return table.parquet or (1 if _has_wide_decimals(schema) else 2)


def _has_wide_decimals(kind: DataType) -> bool:
    """Spark writes these as bytes of a fixed length, whose encodings of version 2 Polars does not read."""
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
