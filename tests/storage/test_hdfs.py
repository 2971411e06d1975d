"""Behaviour of HDFS alone; test_storage.py has the common contract."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from freshline.errors import WarehouseError
from freshline.storage import hdfs, layout
from freshline.storage.base import storage_at
from freshline.storage.hdfs import HdfsStorage
from tests.hdfs_server import NameNode


@pytest.fixture
def namenode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NameNode:
    """In the place of one."""
    namenode = NameNode(tmp_path)
    monkeypatch.setattr(hdfs, "connect", lambda _place: namenode)
    return namenode


@pytest.mark.parametrize("address", ["hdfs://host:8020/a/b", "hdfs://nameservice", "viewfs://cluster/a"])
def test_addresses_of_hdfs_are_its(address: str, namenode: NameNode) -> None:
    """As Spark and deltalake take them."""
    hdfs.hdfs_storage_at.cache_clear()
    storage = storage_at(address)
    assert isinstance(storage, HdfsStorage)
    assert (str(storage), storage.at("x/y")) == (address, f"{address}/x/y")
    storage.create("x/y", b"1")
    assert storage.sizes("") == {"x/y": 1}
    hdfs.hdfs_storage_at.cache_clear()


def test_a_cluster_that_does_otherwise_is_refused(namenode: NameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster whose behaviour differs is found before any data is written."""
    storage = HdfsStorage("hdfs://host/warehouse")
    original = namenode.rename
    monkeypatch.setattr(namenode, "rename", lambda src, dst, **_: original(src, dst, overwrite=True))
    with pytest.raises(WarehouseError, match="two writers would not notice each other"):
        layout.check_warehouse(storage, "ours")
    assert not storage.children("")


@pytest.mark.parametrize("error", [OSError("Connection refused"), RuntimeError('RPCError("AccessControl", "no")')])
def test_a_cluster_that_refuses_is_told(namenode: NameNode, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The error has one sentence; methods that do not raise return unknown."""

    def fails(*_: Any, **__: Any) -> Any:
        raise error

    storage = HdfsStorage("hdfs://host/warehouse")
    for name in ("read", "create", "list_status", "get_file_info", "delete"):
        monkeypatch.setattr(namenode, name, fails)
    with pytest.raises(WarehouseError, match=r"hdfs://host/warehouse cannot be used: (Connection refused|RPCError)"):
        layout.check_warehouse(storage, "ours", make=False)
    assert not layout.is_ours(storage, "ours")
    assert storage.age("a") == 0.0
    storage.clear("a")


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with an extra."""
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(WarehouseError, match=r"hdfs-native, which is not installed .*freshline\[hdfs\]"):
        hdfs.connect("hdfs://host")
