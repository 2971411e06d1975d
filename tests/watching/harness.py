"""A lab with a watched source: files appear, the real watcher looks, and the store is asked what it got."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from freshline.services.watcher import Watcher
from freshline.store.db.database import Row
from tests.store_harness import Lab, laboratory, workflow
from tests.waiting import wait_until

SOURCE = "landing.orders"
CONSUMER = workflow("orders", [{"assetId": SOURCE, "rows": "new"}])


class Watching:
    """One project directory, one lab, and one watcher that a test steps."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab = lab
        self.root = root
        self.drop = root / "drop"
        self.drop.mkdir(exist_ok=True)
        self.watcher = Watcher(lab.store)

    def apply(self, watch: dict[str, Any] | None = None, *, mode: str = "append", **more: Any) -> None:
        """Apply the source with a watch; without one of `drop/*.csv`."""
        block = {"files": "drop/*.csv"} if watch is None else watch
        source = {"assetId": SOURCE, "mode": mode, **({"watch": block} if block else {}), **more}
        self.lab.apply(CONSUMER, sources=(source,), root=self.root)

    def write(self, name: str, text: str = "id\n1\n") -> Path:
        """Write a file into the directory."""
        path = self.drop / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def look(self, **later: float) -> Row:
        """Let time pass, 40 seconds if nothing is given, look, and return the row of the watch."""
        self.lab.advance(**(later or {"seconds": 40}))
        self.finish(self.watcher)
        return self.row()

    def finish(self, watcher: Watcher) -> None:
        """Do rounds until the looks are recorded."""

        def idle() -> bool:
            watcher.run_once()
            return not watcher.busy

        wait_until(idle)

    def row(self, asset_id: str = SOURCE) -> Row:
        """Return the watch."""
        (row,) = self.lab.rows("SELECT * FROM watches WHERE asset_id = %s", asset_id)
        return row

    def delivered(self, asset_id: str = SOURCE) -> list[str]:
        """Return the paths of the deliveries, in their order."""
        rows = self.lab.rows(
            "SELECT i.item ->> 'path' AS path FROM deliveries d, jsonb_array_elements(d.items) WITH ORDINALITY "
            "AS i (item, n) WHERE asset_id = %s ORDER BY last_number, n",
            asset_id,
        )
        return [str(Path(row["path"]).relative_to(self.root)) for row in rows]

    def events(self) -> int:
        """Return the number of reports."""
        return int(self.lab.one("SELECT count(*) FROM events WHERE type = 'asset.produced' AND subject = %s", SOURCE))


@contextmanager
def watching(url: str, root: Path, **settings: Any) -> Iterator[Watching]:
    """Yield a lab with a watcher."""
    with laboratory(url, **settings) as lab:
        place = Watching(lab, root)
        yield place
        place.watcher.stop()
