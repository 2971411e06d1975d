"""Copies of the project's code: written from the bytes that were hashed, verified, shared by workers, and removed."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshline.definitions.code import Code, CodeReader, code_hash, read_code
from freshline.errors import DefinitionError, EngineError
from freshline.settings import Settings
from freshline.worker import code_copies
from freshline.worker.code_copies import KEEP, CodeCopies
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import JobFailedError
from tests.worker.steps import Bench

FILES = {
    "jobs.py": """
import importlib.resources, importlib.util, inspect, multiprocessing, os, pathlib, pkgutil, subprocess, sys
from concurrent.futures import ProcessPoolExecutor

def report(value): return {"assets": [{"assetId": "out", "payload": value}]}

class Editable:
    "A finder as editable installations have it: it names a file of the project."
    def find_spec(fullname, path, target=None):
        names = {"edited_installation": "lib/tool.py", "added": "pack/late.py"}
        if fullname in names:
            return importlib.util.spec_from_file_location(fullname, os.path.abspath(names[fullname]))

def imports(ctx):
    import pack.deep.module, plain.inside
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))  # as jobs do it; the directory was edited
    import tool
    sys.meta_path.append(Editable)
    import edited_installation
    return report({
        "values": [pack.deep.module.VALUE, plain.inside.VALUE, tool.VALUE, edited_installation.VALUE],
        "file": pack.deep.module.__file__, "path": list(pack.__path__), "plain": list(plain.__path__),
        "modules": sorted(found.name for found in pkgutil.walk_packages(pack.__path__, "pack.")),
        "data": importlib.resources.files("pack").joinpath("data.txt").read_text(),
        "source": inspect.getsource(tool), "cwd": os.getcwd(),
        "project": [entry for entry in sys.path if os.path.realpath(entry or ".") == os.getcwd()],
    })

def value():
    import tool
    return tool.VALUE

def children(ctx):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        spawned = pool.submit(value).result()
    done = subprocess.run([sys.executable, "-Pc", "import tool; print(tool.VALUE)"], capture_output=True, text=True)
    return report([spawned, done.stdout.strip() or done.stderr])

def absent(ctx):
    import tests.helper

def added(ctx):
    import added
""",
    "pack/__init__.py": "",
    "pack/data.txt": "data",
    "pack/deep/__init__.py": "",
    "pack/deep/module.py": "VALUE = 1\n",
    "plain/inside.py": "VALUE = 2\n",
    "lib/tool.py": "VALUE = 3\n",
    "tests/helper.py": "",
}


def write(root: Path, files: dict[str, str]) -> None:
    """Write files of a project."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a project with modules and packages of all kinds."""
    write(tmp_path, FILES)
    return tmp_path


def copies_of(root: Path) -> CodeCopies:
    """Return the copies as another worker of this machine has them."""
    return CodeCopies(Settings(project=root))


def there(root: Path) -> set[str]:
    """Return the names of the copies on disk."""
    return {path.name for path in (root / ".freshline" / "code").iterdir() if path.name != ".lock"}


@pytest.fixture
def bench(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Yield a runner of the code as it was before every file was edited."""
    monkeypatch.setenv("PYTHONPATH", str(root / "lib"))
    runner = RunnerProcess(root, spark=False, settings=Settings(project=root), code=copies_of(root).current())
    for name in FILES:
        if name.endswith(".py"):
            (root / name).write_text("VALUE = 'never applied'\n")
    write(root, {"lib/json.py": "raise RuntimeError('added later')\n", "pack/late.py": ""})
    runner.start()
    yield Bench(root, runner)
    runner.kill()


def test_everything_of_the_project_is_imported_from_the_copy(bench: Bench, root: Path) -> None:
    """Packages, namespaces and directories that a job adds: the applied code, under the names of the project's files.

    Data files and the working directory are the project's own.
    """
    (output,) = bench.run({"kind": "python", "entrypoint": "jobs:children"}).outputs
    assert output.payload == [3, "3"]
    (output,) = bench.run({"kind": "python", "entrypoint": "jobs:imports"}).outputs
    assert output.payload == {
        "values": [1, 2, 3, 3],
        "file": f"{root}/pack/deep/module.py",
        "path": [f"{root}/pack"],
        "plain": [f"{root}/plain"],
        "modules": ["pack.deep", "pack.deep.module"],
        "data": "data",
        "source": "VALUE = 3\n",
        "cwd": str(root),
        "project": [],
    }
    with pytest.raises(JobFailedError, match=r"No module named 'tests'"):
        bench.run({"kind": "python", "entrypoint": "jobs:absent"})
    with pytest.raises(JobFailedError, match=r"pack/late\.py is not part of the applied code"):
        bench.run({"kind": "python", "entrypoint": "jobs:added"})


def test_a_copy_has_the_files_of_its_hash_and_they_are_read_only(root: Path) -> None:
    """Its content has its name as hash, without tests and data; the version in memory outlives an edit."""
    copy = copies_of(root).current()
    (root / "jobs.py").write_text("edited = True\n")
    used = copy.use()
    assert used.path == root / ".freshline" / "code" / copy.hash
    assert code_hash(used.path) == copy.hash != code_hash(root)
    files = {path.relative_to(used.path).as_posix() for path in used.path.rglob("*") if path.is_file()}
    assert files == {name for name in FILES if name.endswith(".py") and not name.startswith("tests/")}
    assert {stat.S_IMODE((used.path / name).stat().st_mode) for name in files} == {0o444}
    used.release()


@pytest.mark.parametrize("damage", ["truncated", "edited", "removed", "added", "bytecode", "linked", "all"])
def test_a_damaged_copy_is_replaced(root: Path, damage: str) -> None:
    """A copy that differs in any way from its hash is written again before it is used."""
    copy = copies_of(root).current()
    path = root / ".freshline" / "code" / copy.hash
    module = path / "lib" / "tool.py"
    original = module.read_bytes()
    match damage:
        case "truncated":
            os.truncate(module, 3)
        case "edited":
            module.chmod(0o644)
            module.write_text("VALUE = 4\n")
        case "removed":
            module.unlink()
        case "added":
            (path / "json.py").touch()
        case "bytecode":
            (path / "__pycache__").mkdir()
            (path / "__pycache__" / "jobs.cpython-311.pyc").write_bytes(b"x")
        case "linked":
            module.unlink()
            module.symlink_to(root / "lib" / "tool.py")
        case "all":
            path.rename(path.with_name("elsewhere"))
            path.write_text("a file")
    used = copies_of(root).current().use()
    assert used.path == path
    assert module.read_bytes() == original
    assert not module.is_symlink()
    assert not (path / "json.py").exists()
    assert not (path / "__pycache__").exists()
    used.release()
    assert not [name for name in there(root) if name.startswith(".new-")]


def test_old_copies_are_removed_unless_they_are_used(root: Path) -> None:
    """The last few stay, and those of a runner of any worker; the rest goes, with what a killed worker left."""
    first, other = copies_of(root), copies_of(root)
    used = first.current().use()
    seen = [used.hash]
    for number in range(KEEP + 2):
        (root / "lib" / "tool.py").write_text(f"VALUE = 'other {number}'\n")
        (root / ".freshline" / "code" / f".new-{number}").mkdir()
        seen.append(other.current().hash)
    assert there(root) == {used.hash, *seen[-KEEP:]}
    used.release()
    other.current().use().release()
    assert there(root) == set(seen[-KEEP:])


def test_a_runner_protects_its_copy_until_it_has_exited(root: Path) -> None:
    """The copy of a live runner stays; it goes with the first new copy after the runner's end."""
    copies = copies_of(root)
    runner = RunnerProcess(root, spark=False, settings=Settings(project=root), code=copies.current())
    runner.start()

    def make_others(name: str) -> None:
        for number in range(KEEP + 1):
            (root / "lib" / "tool.py").write_text(f"VALUE = '{name} {number}'\n")
            copies.current()

    make_others("first")
    assert runner.code_hash in there(root)
    runner.kill()
    make_others("second")
    assert runner.code_hash not in there(root)


def test_many_workers_make_one_copy(root: Path) -> None:
    """They exclude each other: nobody sees half a copy, and nothing is left."""
    found: list[bool] = []

    def one() -> None:
        used = copies_of(root).current().use()
        found.append(read_code(used.path).hash == used.hash)
        used.release()

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8
    assert there(root) == {code_hash(root)}


def test_without_a_writable_project_copies_are_temporary(root: Path) -> None:
    """A project that is mounted read-only still runs: the copy is in a private temporary directory."""
    (root / ".freshline").write_text("not a directory")
    used = copies_of(root).current().use()
    assert not used.path.is_relative_to(root)
    assert code_hash(used.path) == code_hash(root)
    assert stat.S_IMODE(used.path.parent.parent.stat().st_mode) == 0o700
    used.release()


def test_a_copy_that_cannot_be_written_is_not_the_workflows_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is told as such, and the code counts as not copied until a copy could be written."""
    copies = copies_of(root)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(code_copies, "_write", full)
        for _ in range(2):
            with pytest.raises(EngineError, match=r"cannot be copied to .*/\.freshline/code: No space left"):
                copies.current()
    assert copies.current().hash == code_hash(root)


def test_edits_of_the_same_size_and_time_are_seen(root: Path) -> None:
    """A tool that keeps times, or two edits within the clock's resolution, cannot hide an edit from the worker."""
    reader = CodeReader(root)
    for number in range(20):
        (root / "lib" / "tool.py").write_text(f"VALUE = {number:02}\n")
        os.utime(root / "lib" / "tool.py", (1_700_000_000, 1_700_000_000))
        assert reader.current().hash == code_hash(root)


def test_code_and_signature_stay_together_for_many_threads(root: Path) -> None:
    """The heartbeat and the slots ask at the same time: no hash is stored for the files of another version."""
    reader, over = CodeReader(root), threading.Event()

    def ask() -> None:
        while not over.is_set():
            reader.current()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(30):
        (root / "lib" / "tool.py").write_text(f"VALUE = {number}\n")
        assert reader.current().hash == code_hash(root)
    over.set()
    for thread in threads:
        thread.join()


def test_files_that_are_no_files_are_no_code(root: Path) -> None:
    """A dangling link and a pipe do not stop the reader; a file without permission is an error with its name."""
    before = read_code(root)
    (root / "gone.py").symlink_to(root / "nowhere")
    os.mkfifo(root / "pipe.py")
    assert read_code(root).hash == before.hash
    (root / "loop.py").symlink_to(root / "loop.py")
    with pytest.raises(DefinitionError, match=r"loop\.py: cannot be read"):
        read_code(root)


def test_every_module_of_definitions_is_code(root: Path) -> None:
    """`apply` imports all modules below workflows/, so they count, also those in a directory called tests."""
    write(root, {"workflows/tests/one.py": "x = 1\n"})
    assert "workflows/tests/one.py" in read_code(root).files
    assert Code({"a.py": b""}).hash != Code({"b.py": b""}).hash
