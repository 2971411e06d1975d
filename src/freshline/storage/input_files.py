"""The files of its inputs that a step reads: their bytes, each file counted once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from freshline.errors import FreshlineError
from freshline.model.deliveries import Deliveries, Delivery
from freshline.model.run import PinnedInput
from freshline.storage.base import Storage, storage_at
from freshline.storage.layout import rows_at
from freshline.storage.source_files import ADDRESS, remote_storage, sizes_at

Unit = tuple[str, str]  # an asset and its partition


@dataclass(slots=True)
class _Table:
    """What is read of one table: directories, and the bytes of sets of them that are known."""

    directories: set[str] = field(default_factory=set)
    known: list[tuple[frozenset[str], int]] = field(default_factory=list)

    def bytes(self, storage: Storage) -> int:
        """Return the bytes of all files. A directory is listed only if the snapshots do not say what is in it."""
        for directories, size in self.known:
            if directories == self.directories:
                return size
        return sum(size for one in self.directories for size in storage.sizes(one).values())


class InputFiles:
    """Collects what one step reads. `remote`: whether files of sources in remote stores can be listed."""

    def __init__(self, warehouse: str, *, remote: bool) -> None:
        self._warehouse = warehouse
        self._remote = remote
        self._tables: dict[Unit, _Table] = defaultdict(_Table)
        self._paths: set[str] = set()
        self.empty = True

    def add(self, pinned: PinnedInput, deliveries: Callable[[PinnedInput], Deliveries], *, new: bool = False) -> None:
        """Add the files of an input. `new`: only those that are new to the step."""
        self.empty = False
        if pinned.partitions is not None:
            for one in pinned.partitions:
                self.add(one, deliveries, new=new)
            return
        since = pinned.since if new else None
        if pinned.deliveries is not None:
            self._paths.update(one.path for one in deliveries(pinned).after(since) if one.path is not None)
        elif "paths" in (pinned.location or {}):
            self._add_table(pinned, since)
        elif since is None and pinned.location is not None:
            self._paths.add(str(pinned.location["path"]))

    def add_delivery(self, delivery: Delivery) -> Delivery:
        """Add the file of a delivery that a job looks at, and return the delivery."""
        self.empty = False
        if delivery.path is not None:
            self._paths.add(delivery.path)
        return delivery

    def _add_table(self, pinned: PinnedInput, since: int | None) -> None:
        location = pinned.location or {}
        parts: Sequence[tuple[int, str]] = pinned.parts or [(0, path) for path in location["paths"]]
        chosen = {rows_at(location, path) for version, path in parts if since is None or version > since}
        table = self._tables[pinned.asset_id, pinned.partition_key]
        table.directories |= chosen
        if len(chosen) == len(parts) and pinned.bytes is not None:
            table.known.append((frozenset(chosen), pinned.bytes))

    def bytes(self) -> int | None:
        """Return the bytes of all files; None if one is not known."""
        try:
            storage = storage_at(self._warehouse)
            sizes = {name: size for path in self._paths for name, size in self._sizes(path).items()}
            return sum(one.bytes(storage) for one in self._tables.values()) + sum(sizes.values())
        except (FreshlineError, OSError, KeyError):
            return None  # a file is gone, or a store does not answer; the step has succeeded

    def _sizes(self, path: str) -> dict[str, int]:
        """Return the size of each file at the path of a source."""
        if ADDRESS.fullmatch(path) is None:
            return sizes_at(path.removeprefix("file:"), None)
        if not self._remote:
            raise FileNotFoundError(path)
        return sizes_at(path, remote_storage(path))
