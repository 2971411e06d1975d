"""Dump the schema that the migrations produce into one file: `python -m freshline.store.db.dump`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from freshline.embedded_postgres import binaries
from freshline.embedded_postgres.server import EmbeddedServer
from freshline.store.db.migrate import upgrade

DUMP = Path(__file__).parents[1] / "schema.sql"


def dump(conninfo: str) -> str:
    """Return the schema as SQL, without what differs between servers and runs."""
    lines = binaries.run("pg_dump", "--schema-only", "--no-owner", "--no-privileges", conninfo).splitlines()
    noise = re.compile(r"--|SET |SELECT pg_catalog\.set_config|\\(un)?restrict\b")
    text = "\n".join(line for line in lines if not noise.match(line))
    return re.sub(r"\n{2,}", "\n\n", text).strip() + "\n"


def _write() -> None:
    # The path of a socket must be short, and the data is of no value: hence no fsync.
    with (
        tempfile.TemporaryDirectory(prefix="freshline-") as home,
        EmbeddedServer(Path(home), options={"fsync": "off"}) as url,
    ):
        upgrade(url)
        DUMP.write_text(dump(url), encoding="utf-8")


if __name__ == "__main__":
    _write()
