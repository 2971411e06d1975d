"""Failures to read an input, without the content of its files.

Errors are visible with the scope `read`. Spark quotes malformed records and headers in its messages, so only the
condition, the file and what to look for are kept.
"""

from __future__ import annotations

import re

# A condition of Spark at the beginning of a message, perhaps after the name of the Java class.
CONDITION = re.compile(r"(?:^|\n: |: )\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
READING = re.compile(
    r"\[((?:FAILED_READ_FILE|MALFORMED_RECORD_IN_PARSING|MALFORMED_CSV_RECORD|INVALID_CSV_HEADER|"
    r"CANNOT_READ_FILE_FOOTER|CANNOT_PARSE_JSON|INVALID_JSON\w*|MALFORMED_\w+)(?:\.[A-Z_]+)?)\]"
)
# Readers below Spark have no conditions.
SIGNS = re.compile(
    r"\b(BadRecordException|MalformedCSVException|TextParsingException|JsonParseException|JsonProcessingException|"
    r"MalformedInputException|CharConversionException|ParquetDecodingException|MalformedRecordException|"
    r"XMLStreamException|SAXParseException|AvroRuntimeException|AvroParseException)\b"
    r"|(CSV header does not conform|is not a Parquet file|Malformed ORC file)"
)
FILE = re.compile(r"reading file (\S+?)\.?(?:\s|$)")
JAVA_CLASS = re.compile(r"(?:^|\n: |Caused by: )(?:[\w$]+\.)+([\w$]+(?:Exception|Error))\b")
# Their messages name paths, formats and addresses only.
SHOWN = frozenset(
    {
        "PATH_NOT_FOUND",
        "DATA_SOURCE_NOT_FOUND",
        "AVRO_DATA_SOURCE_NOT_ENABLED",
        "UNABLE_TO_INFER_SCHEMA",
        "FILE_NOT_EXIST",
    }
)
HEADER = "CSV header does not conform"
GONE = "it is no longer there"
OTHER_COLUMNS = "its header differs from that of the files before it"
DAMAGED = "it is damaged, or not in the format that the source declares"


def unreadable(error: BaseException) -> str | None:
    """Return a sentence for an error of reading the content of a file; None if the error is another one."""
    text = _whole(error)
    found = READING.search(text)
    sign = None if found else SIGNS.search(text)
    if found is None and sign is None:
        return None
    condition = f"[{found[1]}]" if found else f"[{sign[1] or 'UNREADABLE'}]" if sign else ""
    file = FILE.search(text)
    if file is None:
        return f"{condition} a record of an input cannot be parsed"
    why = GONE if "NOT_EXIST" in condition else OTHER_COLUMNS if HEADER in text else DAMAGED
    return f"{condition} the input file {file[1]} cannot be read: {why}"


def reason(error: BaseException) -> str | None:
    """Return why a reader could not be opened: the condition or the class of the failure.

    None if the message can be shown, because it has no content of a file.
    """
    text = _whole(error)
    if READING.search(text) is None and (found := CONDITION.search(text)):
        return None if found[1].rpartition(".")[2] in SHOWN or found[1] in SHOWN else f"[{found[1]}]"
    if short := unreadable(error):
        return short
    java = JAVA_CLASS.findall(text)
    return f"[{java[-1] if java else type(error).__name__}]"


def _whole(error: BaseException) -> str:
    """Return the text of an error with those of its causes in the JVM."""
    return f"{getattr(error, 'java_exception', None) or ''}\n{error}".lstrip()
