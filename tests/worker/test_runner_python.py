"""Python jobs in a real runner process: what they get, what they may return, and how they may go wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from freshline.definitions.code import code_hash
from freshline.model.run import PinnedInput, StagedOutput
from freshline.settings import Settings
from freshline.worker.log_capture import MAX_BYTES, MAX_LINE, MAX_LINES
from freshline.worker.protocol import ProtocolError, decode
from freshline.worker.runner_process import RunnerProcess
from freshline.worker.step_errors import JobFailedError, RunnerDied, StepStopped, StepTimeout
from tests.waiting import wait_until
from tests.worker.steps import Bench, copy_of, python

JOBS = """
import ctypes, os, sys, time
from freshline.definitions.decorators import asset

def context(ctx):
    print("printed")
    print("wrong", file=sys.stderr)
    ctx.log.info("said %d", 1)
    ctx.progress(1, 4)
    up = ctx.inputs["up"]
    return {"assets": [{"assetId": "out", "dataVersion": up.data_version + "!", "payload": {
        "run": ctx.run_id, "attempt": ctx.attempt, "key": ctx.partition_key, "parameters": ctx.parameters,
        "version": up.version, "payload": up.payload, "full": ctx.full_refresh, "cwd": os.getcwd(),
        "pyspark": "pyspark" in sys.modules}, "freshness": {"ttlMs": 5}}]}

@asset("out", kind="python", inputs={"other": "up.other"})
def decorated(up, other, limit, ctx):
    return {"assets": [{"assetId": "out", "dataVersion": f"{up.data_version} {other.payload} {limit} {ctx.attempt}"}]}

def nothing(ctx): return None
def undeclared(ctx): return {"assets": [{"assetId": "outt"}]}
def empty(ctx): return {"assets": []}
def twice(ctx): return {"assets": [{"assetId": "out"}, {"assetId": "out"}]}
def partition(ctx): return {"assets": [{"assetId": "out", "partitionKey": "2024"}]}
def field(ctx): return {"assets": [{"assetId": "out", "dataversion": "1"}]}
def number(ctx): return {"assets": [{"assetId": "out", "dataVersion": 7}]}
def not_json(ctx): return {"assets": [{"assetId": "out", "payload": {1, 2}}]}
def nan(ctx): return {"assets": [{"assetId": "out", "payload": float("nan")}]}
def huge(ctx): return {"assets": [{"assetId": "out", "payload": "x" * 300_000}]}
def freshness(ctx): return {"assets": [{"assetId": "out", "freshness": {"ttl": "soon"}}]}
def other_type(ctx): return 42
def no_spark(ctx): return ctx.spark
def no_df(ctx): return ctx.inputs["up"].df()
def no_input(ctx): return ctx.inputs["down"]
def no_input_deep(ctx): return no_input(ctx)
def no_at(ctx): return ctx.inputs["up"].at(99)
def secret_input(ctx): return ctx.inputs[os.environ["API_KEY"]]
def path(ctx):
    return {"assets": [{"assetId": "out", "dataVersion": "1", "payload": {"path": "/data/x", "format": "csv"}}]}

def _deep(): raise ValueError("bad \\x00 value")
def fails(ctx): _deep()
def looks_up(ctx): return {}["k"]
def leaves(ctx): sys.exit(3)
def memory(ctx): raise MemoryError
def ends(ctx): print("last words", flush=True); os._exit(7)
def crashes(ctx): ctypes.string_at(0)
def killed(ctx): os.kill(os.getpid(), 9)
def spins(ctx):
    while True: pass
def stubborn(ctx):
    while True:
        try:
            print("started")
            time.sleep(60)
        except BaseException:
            pass
def reads(ctx):
    for asset in ctx.inputs.values():
        asset.duckdb().fetchall(), asset.arrow()
    return {"assets": [{"assetId": "out", "dataVersion": "1"}]}
def opens(ctx):
    open(ctx.inputs["up"].path).read()
    return {"assets": [{"assetId": "out", "dataVersion": "1"}]}
def ignores(ctx): return {"assets": [{"assetId": "out", "dataVersion": "1"}]}
def sleeps(ctx): time.sleep(600)
def chatty(ctx):
    print("x" * 20_000)
    for i in range(20_000): print(i)
def chatty_bytes(ctx):
    for _ in range(300): print("y" * 8_000)
def garbage(ctx): sys.stdout.buffer.write(b"\\xff\\x00 no end of line"); sys.stdout.flush()
def secret(ctx):
    print("the secret is", os.environ["API_KEY"])
    raise RuntimeError(os.environ["API_KEY"])
def key(ctx):
    print(os.environ["PRIVATE_KEY"])
    ctx.log.info("it is %s", os.environ["PRIVATE_KEY"])
    raise RuntimeError("x" * 1_960 + os.environ["PRIVATE_KEY"])
def environment(ctx): return {"assets": [{"assetId": "out", "payload": dict(os.environ)}]}
def forks(ctx):
    if os.fork() == 0: time.sleep(600)
    os._exit(0)
def control():
    "Return the descriptor of the control socket, as a job could find it."
    links = {int(fd.name): os.readlink(fd.path) for fd in os.scandir("/proc/self/fd") if os.path.islink(fd.path)}
    return next(fd for fd, link in links.items() if link.startswith("socket:"))
def writes_garbage(ctx):
    fd, kind = control(), ctx.parameters["data"]
    data = {"text": b"garbage\\n", "value": b'{"type": "LogLine", "text": 7}\\n', "ours": b'{"type": "Exit"}\\n',
            "cut": b'{"type": "LogL', "long": b"x" * (17 << 20)}[kind]
    while data:
        data = data[os.write(fd, data):]
    if kind == "cut":
        import socket
        socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RDWR)
    time.sleep(600)
def closes(ctx):
    import socket
    socket.socket(fileno=os.dup(control())).shutdown(socket.SHUT_WR)
    time.sleep(600)
def child(ctx):
    pid = os.fork()
    if pid == 0: time.sleep(600)
    print(pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project with jobs of every kind of behaviour."""
    root = tmp_path_factory.mktemp("project")
    (root / "jobs.py").write_text(JOBS)
    (root / "broken.py").write_text("x = 1\ndef f(:\n")
    # Named like a module of the standard library: it must not break the runner.
    (root / "selectors.py").write_text("raise RuntimeError('imported by the runner itself')\n")
    return root


@pytest.fixture
def start(project: Path) -> Iterator[Callable[[], Bench]]:
    """Yield a function that starts runners, which are closed after the test."""
    runners: list[RunnerProcess] = []

    def one() -> Bench:
        runner = RunnerProcess(project, spark=False, settings=Settings(project=project), code=copy_of(project))
        runners.append(runner)
        runner.start()
        return Bench(project, runner)

    yield one
    for runner in runners:
        runner.kill()


@pytest.fixture(scope="module")
def shared(project: Path) -> Iterator[Bench]:
    """One runner for all tests that leave it alive."""
    runner = RunnerProcess(project, spark=False, settings=Settings(project=project), code=copy_of(project))
    runner.start()
    yield Bench(project, runner)
    runner.close(1)


def test_a_job_gets_its_context_and_reports_what_it_made(shared: Bench) -> None:
    """Inputs, parameters and ids reach the job; print, log and progress reach the supervisor; Spark is not loaded."""
    up = PinnedInput("up", 12, "v1", None, payload={"a": 1})
    job = {**python("context"), "parameters": {"p": 1, "q": 1}}
    result = shared.run(job, inputs={"up": up}, parameters={"q": 2})
    payload = {
        "run": "run",
        "attempt": 1,
        "key": "",
        "parameters": {"p": 1, "q": 2},
        "version": 12,
        "payload": {"a": 1},
        "full": True,
        "cwd": str(shared.project),
        "pyspark": False,
    }
    assert result.outputs == (StagedOutput("out", "step", "v1!", payload=payload, freshness={"ttlMs": 5}),)
    assert sorted(shared.log) == [("log", "INFO said 1"), ("stderr", "wrong"), ("stdout", "printed")]
    assert shared.progress == [{"job": {"done": 1, "total": 4}}]
    assert result.metrics.keys() == {"durationMs", "progress", "bytesIn"}
    assert result.metrics["progress"] == {"done": 1, "total": 4}
    assert shared.runner.code_hash == code_hash(shared.project)


def test_bytes_in_are_those_of_the_files_that_were_opened(shared: Bench) -> None:
    """Each file once, of inputs that the job read through Freshline or whose paths it got; else they are unknown."""
    source, folder = shared.project / "in.csv", shared.warehouse / "big/data/a"
    folder.mkdir(parents=True)
    source.write_text("k,v\na,1\n")
    duckdb.sql(f"COPY (SELECT range AS id FROM range(9)) TO '{folder / 'part-0.parquet'}' (FORMAT parquet)")
    table = PinnedInput("big", 1, "v", {"format": "parquet", "paths": ["big/data/a"]}, parts=[(0, "big/data/a")])
    csv, parquet = source.stat().st_size, (folder / "part-0.parquet").stat().st_size
    up = PinnedInput("up", 1, "v", {"format": "csv", "path": str(source)})
    both = {"up": up, "big": table}
    for function, inputs, size in (
        ("reads", {"up": up}, csv),
        ("reads", both, csv + parquet),
        ("opens", both, csv),
        ("ignores", both, None),
        ("ignores", {"up": PinnedInput("up", 1, "v", None, payload=1)}, 0),
        ("ignores", {}, 0),
    ):
        assert shared.run(python(function), inputs=inputs).metrics["bytesIn"] == size, function


def test_a_decorated_function_gets_its_inputs_and_parameters_by_name(shared: Bench) -> None:
    """Under @asset the parameters of the function name inputs, parameters of the run, and ctx."""
    inputs = {"up": PinnedInput("up", 1, "v1", None), "up.other": PinnedInput("up.other", 1, "v2", None, payload="p")}
    consumes = [{"assetId": "up"}, {"assetId": "up.other", "as": "other"}]
    result = shared.run(python("decorated"), inputs=inputs, consumes=consumes, parameters={"limit": 9})
    assert result.outputs[0].data_version == "v1 p 9 1"


@pytest.mark.parametrize(("function", "asset"), [("decorated", "up"), ("no_input", "down")])
def test_an_input_with_partitions_and_no_data_is_named(shared: Bench, function: str, asset: str) -> None:
    """A function gets no None in place of it, and `ctx.inputs` does not say that it is not declared."""
    inputs = {"up.other": PinnedInput("up.other", 1, "v2", None)}
    consumes = [{"assetId": "up"}, {"assetId": "up.other", "as": "other"}]
    with pytest.raises(JobFailedError, match=f"input '{asset}' has no partition with data yet, so its columns are not"):
        shared.run(python(function), inputs=inputs, consumes=consumes, parameters={"limit": 9}, empty=(asset,))


def test_a_job_that_returns_nothing_has_made_everything_at_an_unknown_version(shared: Bench) -> None:
    """None stands for all declared outputs that are not optional; no data version means always changed."""
    produces = [{"assetId": "out"}, {"assetId": "more"}, {"assetId": "maybe", "optional": True}]
    result = shared.run(python("nothing"), produces=produces)
    assert [(o.asset_id, o.data_version) for o in result.outputs] == [("out", None), ("more", None)]


def test_an_optional_output_may_be_missing(shared: Bench) -> None:
    """Only outputs that are not optional must be returned (docs/semantics.md#R7.4)."""
    assert shared.run(python("empty"), produces=[{"assetId": "out", "optional": True}]).outputs == ()


def test_data_that_lies_elsewhere_has_a_location(shared: Bench) -> None:
    """A payload with a path tells consumers where to read, as with sources."""
    assert shared.run(python("path")).outputs[0].location == {"format": "csv", "path": "/data/x"}


def test_the_rule_for_the_data_version_holds_for_reports(shared: Bench) -> None:
    """`none` forgets a reported version, `reported` insists on one (docs/semantics.md#R9.6)."""
    none = [{"assetId": "out", "dataVersion": {"source": "none"}}]
    assert shared.run(python("path"), produces=none).outputs[0].data_version is None
    reported = [{"assetId": "out", "dataVersion": {"source": "reported"}}]
    with pytest.raises(JobFailedError, match="reported no dataVersion"):
        shared.run(python("nothing"), produces=reported)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("undeclared", r"asset 'outt', which it does not declare; declared are: out; did you mean 'out'\?"),
        ("empty", "declares out in 'produces', but did not return it"),
        ("twice", "out more than once"),
        ("partition", "partitionKey '2024'; allowed is none: it has no partitions; leave it out"),
        ("field", "field 'dataversion'; allowed are assetId, dataVersion, .* did you mean 'dataVersion'"),
        ("number", "dataVersion is '7'; allowed are texts"),
        ("not_json", "payload is not JSON"),
        ("nan", "payload is not JSON"),
        ("huge", "payload has 300002 bytes"),
        ("freshness", "freshness .*ttl"),
        ("other_type", "returned a value of type builtins.int"),
        ("no_spark", "ctx.spark needs Spark, and a 'python' job has none"),
        ("no_df", r"df\(\) needs Spark"),
        ("no_input", "asset 'down' is not an input of this step; its inputs are: up"),
        ("absent", "module jobs has no function 'absent'"),
    ],
)
def test_a_wrong_result_is_refused_with_what_is_allowed(shared: Bench, function: str, message: str) -> None:
    """Each mistake of a job gets one sentence that says what is allowed."""
    with pytest.raises(JobFailedError, match=message):
        shared.run(python(function), inputs={"up": PinnedInput("up", 1, "v", None)})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("no_spark", "ctx.spark needs Spark, and a 'python' job has none; use the job kind 'spark.python'"),
        ("no_at", "ctx.inputs['up'].df() needs Spark, and a 'python' job has none; use the job kind 'spark.python'"),
        ("no_input", "asset 'down' is not an input of this step; its inputs are: up; add it to 'consumes'"),
        ("no_input_deep", "asset 'down' is not an input of this step; its inputs are: up; add it to 'consumes'"),
    ],
)
def test_what_ctx_refuses_is_told_with_the_users_own_lines(shared: Bench, function: str, message: str) -> None:
    """Its sentence stays as it is; file, line and traceback are the user's, without a frame of ours."""
    with pytest.raises(JobFailedError) as caught:
        shared.run(python(function), inputs={"up": PinnedInput("up", 1, "v", None)})
    where = function.removesuffix("_deep")
    line = next(n for n, text in enumerate(JOBS.splitlines(), 1) if text.startswith(f"def {where}("))
    assert (caught.value.code, caught.value.message) == ("job", message)
    assert str(caught.value).startswith(f"jobs.py:{line}: ")
    first, *frames, last = caught.value.traceback.splitlines()
    hint = f" ({caught.value.hint})" if caught.value.hint else ""
    assert (first, last) == ("Traceback (most recent call last):", f"freshline.errors.JobError: {message}{hint}")
    files = [frame for frame in frames if frame.startswith("  File")]
    assert [one.rpartition(" ")[2] for one in files] == list(dict.fromkeys([function, where]))
    assert all(f"{shared.project}/jobs.py" in one for one in files)


@pytest.mark.parametrize(
    ("function", "name", "permanent"),
    [("fails", "ValueError", False), ("looks_up", "LookupError", True), ("undeclared", "JobError", True)],
)
def test_an_error_says_whether_it_can_go_away(shared: Bench, function: str, name: str, permanent: bool) -> None:
    """The supervisor decides about another try, so it gets the class and what it means (docs/semantics.md#R7.5)."""
    with pytest.raises(JobFailedError) as caught:
        shared.run(python(function))
    assert (name in caught.value.raised, caught.value.permanent) == (True, permanent)


def test_what_is_not_the_users_line_has_no_traceback(shared: Bench) -> None:
    """A function that is not there is told by its entry point; there is no line to point at."""
    with pytest.raises(JobFailedError) as caught:
        shared.run(python("absent"))
    assert (caught.value.place, caught.value.traceback) == (None, "")


def test_a_secret_in_what_ctx_refuses_is_hidden(shared: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback repeats the sentence, so it is hidden in both."""
    monkeypatch.setenv("API_KEY", "k3y-of-api")
    with pytest.raises(JobFailedError) as caught:
        shared.run(python("secret_input"), secrets=["API_KEY"])
    assert "is not an input" in caught.value.traceback
    assert "k3y-of-api" not in str(caught.value) + caught.value.traceback


def test_an_exception_is_told_with_the_users_own_lines(shared: Bench) -> None:
    """Message, file and line are the user's; the traceback has no frame of ours; NUL cannot reach the database."""
    with pytest.raises(JobFailedError) as caught:
        shared.run(python("fails"))
    line = next(n for n, text in enumerate(JOBS.splitlines(), 1) if text.startswith("def _deep"))
    assert str(caught.value) == f"jobs.py:{line}: ValueError: bad \ufffd value"
    assert "in fails" in caught.value.traceback
    assert "freshline" not in caught.value.traceback.replace(str(shared.project), "")


@pytest.mark.parametrize(("function", "message"), [("leaves", r"called sys.exit\(3\)"), ("memory", "MemoryError")])
def test_ends_that_python_can_catch_leave_the_runner_alive(shared: Bench, function: str, message: str) -> None:
    """sys.exit and memory errors fail the step, not the runner."""
    pid = shared.runner.pid
    with pytest.raises(JobFailedError, match=message):
        shared.run(python(function))
    assert shared.run(python("nothing")).outputs
    assert shared.runner.pid == pid


def test_a_module_that_cannot_be_imported_is_told(shared: Bench) -> None:
    """An absent module and a module with a syntax error are the user's mistakes, with file and line."""
    with pytest.raises(JobFailedError, match="No module named 'nowhere'; modules are found from the project's root"):
        shared.run({"kind": "python", "entrypoint": "nowhere:f"})
    with pytest.raises(JobFailedError, match=r"broken\.py:2: SyntaxError"):
        shared.run({"kind": "python", "entrypoint": "broken:f"})


@pytest.mark.parametrize(
    ("function", "status"), [("ends", 7), ("crashes", -signal.SIGSEGV), ("killed", -signal.SIGKILL), ("forks", 0)]
)
def test_a_runner_that_dies_is_told_with_its_status(start: Callable[[], Bench], function: str, status: int) -> None:
    """os._exit, a crash in C, and an exit that leaves a forked child behind end the step with RunnerDied."""
    bench = start()
    with pytest.raises(RunnerDied) as caught:
        bench.run(python(function))
    assert caught.value.status == status
    assert not bench.runner.alive
    if function == "ends":
        assert bench.lines == ["last words"]
        assert "last words" in str(caught.value)
    if function == "killed":
        assert "killed by signal 9, as the system does when memory runs out" in str(caught.value)
    with pytest.raises(RunnerDied):
        bench.run(python("nothing"))


@pytest.mark.parametrize("function", ["spins", "sleeps"])
def test_a_step_can_be_stopped_and_the_runner_used_again(shared: Bench, function: str) -> None:
    """An endless loop and a long sleep end at once when asked to, with the reason."""
    wait_until(lambda: shared.runner.ready, what="a ready runner")  # otherwise the step ends before it begins
    began = time.monotonic()
    with pytest.raises(StepStopped) as caught:
        shared.run(python(function), stop=lambda: "canceled" if time.monotonic() > began + 0.2 else None)
    assert caught.value.reason == "canceled"
    assert time.monotonic() - began < 4
    assert shared.runner.ready
    assert shared.run(python("nothing")).outputs


def test_a_job_that_does_not_let_itself_be_stopped_is_killed(
    start: Callable[[], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the grace the process group is killed, children that user code forked included."""
    monkeypatch.setattr("freshline.worker.runner_process.DEFAULT_GRACE_S", 0.3)
    bench = start()
    with pytest.raises(StepStopped):
        bench.run(python("stubborn"), stop=lambda: "shutdown" if bench.log else None)
    assert not bench.runner.alive
    other = start()
    with pytest.raises(StepStopped):
        other.run(python("child"), stop=lambda: "lease-lost" if other.log else None)
    wait_until(lambda: not _exists(int(other.lines[0])), what="the end of the forked child")


def test_a_timeout_ends_the_step(shared: Bench) -> None:
    """A step that takes longer than its timeoutMs fails as the user's."""
    with pytest.raises(StepTimeout, match="timeoutMs of 200"):
        shared.run(python("sleeps"), timeout_ms=200)
    assert shared.run(python("nothing")).outputs


def test_a_runner_that_is_killed_from_outside_is_noticed(start: Callable[[], Bench]) -> None:
    """A kill -9 of the runner ends the step with the signal."""
    bench = start()
    wait_until(lambda: bench.runner.ready, what="a ready runner")

    def kill_once() -> None:
        if bench.runner.pid and bench.runner.alive:
            os.kill(bench.runner.pid, signal.SIGKILL)

    with pytest.raises(RunnerDied, match="killed by signal 9"):
        bench.run(python("sleeps"), stop=kill_once)


@pytest.mark.parametrize("data", ["text", "value", "ours", "cut", "long"])
def test_garbage_on_the_control_socket_ends_the_runner(start: Callable[[], Bench], data: str) -> None:
    """Whatever is not a message of a runner ends that runner at once, and the step says why. Nothing hangs."""
    bench = start()
    wait_until(lambda: bench.runner.ready, what="a ready runner")
    began = time.monotonic()
    with pytest.raises(RunnerDied, match=r"was ended: it wrote to its control socket") as caught:
        bench.run(python("writes_garbage"), parameters={"data": data}, timeout_ms=10_000)
    assert time.monotonic() - began < 5
    assert "memory" not in str(caught.value)
    assert not bench.runner.alive
    assert bench.runner.pid is not None
    assert not _exists(bench.runner.pid)


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        bytes(range(11, 256)),
        b"",
        b"null",
        b"[1, 2]",
        b"[" * 100_000,
        b"{}",
        b'{"type": "Boom"}',
        b'{"type": ["LogLine"]}',
        b'{"type": "LogLine"}',
        b'{"type": "LogLine", "text": 7}',
        b'{"type": "Progress", "values": {"job": 1}}',
        b'{"type": "StepEnded", "id": 1, "last": false, "result": {"outputs": 5, "metrics": {}}}',
        b'{"type": "StepEnded", "id": "1", "last": false}',
        b'{"type": "Unable", "error": null}',
    ],
)
def test_only_messages_are_decoded(line: bytes) -> None:
    """Bytes, JSON of another shape, unknown types and values of another type are all the same error."""
    with pytest.raises(ProtocolError):
        decode(line)


def test_a_runner_that_closes_its_control_socket_is_ended(start: Callable[[], Bench]) -> None:
    """A process that can no longer be controlled is ended, and the error does not guess about memory."""
    bench = start()
    with pytest.raises(RunnerDied, match="was ended: it closed its control socket"):
        bench.run(python("closes"), timeout_ms=10_000)
    assert not bench.runner.alive


def test_logs_are_bounded(shared: Bench) -> None:
    """Long lines are cut; too many lines or bytes end with one line that says so; the step itself goes on."""
    shared.run(python("chatty"))
    assert max(map(len, shared.lines)) <= MAX_LINE
    assert len(shared.log) == MAX_LINES + 1
    assert shared.lines[-1].startswith("truncated:")
    shared.run(python("chatty_bytes"))
    assert sum(map(len, shared.lines)) <= MAX_BYTES + MAX_LINE
    assert shared.lines[-1].startswith("truncated:")


def test_bytes_that_are_no_text_are_logged_anyway(shared: Bench) -> None:
    """What cannot be decoded or stored is replaced, and a last line without an end is not lost."""
    shared.run(python("garbage"))
    assert shared.lines == ["\ufffd\ufffd no end of line"]


def test_secrets_reach_the_job_and_nobody_else(start: Callable[[], Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared secret is in the environment while the step runs, hidden in logs and errors, and gone afterwards."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgresql://u:hunter2@h/db")
    monkeypatch.setenv("FRESHLINE_API_TOKEN", "hunter2")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.setenv("PLAIN", "seen")
    bench = start()
    monkeypatch.setenv("API_KEY", "k3y-of-api")
    with pytest.raises(JobFailedError) as caught:
        bench.run(python("secret"), secrets=["API_KEY"])
    assert bench.lines == ["the secret is ***"]
    assert "k3y-of-api" not in str(caught.value) + caught.value.traceback
    found = bench.run(python("environment")).outputs[0].payload
    assert found["PLAIN"] == "seen"
    assert "API_KEY" not in found
    assert "hunter2" not in str(found)


def test_a_secret_of_several_lines_is_hidden(start: Callable[[], Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is printed line by line, and none of them is shown, nor the half of one where an error is cut."""
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAAS", "-----END PRIVATE KEY-----"]
    monkeypatch.setenv("PRIVATE_KEY", "\n".join(lines))
    bench = start()
    with pytest.raises(JobFailedError) as caught:
        bench.run(python("key"), secrets=["PRIVATE_KEY"])
    assert sorted(bench.lines) == ["***", "***", "***", "***", "***", "INFO it is ***"]
    told = str(caught.value) + caught.value.traceback
    assert not any(line[:12] in told for line in lines)


def test_a_secret_that_is_not_there_or_not_theirs_is_refused(shared: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable; Freshline's own credentials cannot be asked for."""
    monkeypatch.setenv("FRESHLINE_DATABASE_URL", "postgresql://h/db")
    with pytest.raises(JobFailedError, match="secret 'NO_SUCH' is not set in the environment of the worker"):
        shared.run(python("nothing"), secrets=["NO_SUCH"])
    with pytest.raises(JobFailedError, match="Freshline's own"):
        shared.run(python("nothing"), secrets=["FRESHLINE_DATABASE_URL"])


def test_a_changed_module_is_read_by_the_next_runner(
    start: Callable[[], Bench], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit within the same second and of the same size is seen: cached bytecode is not trusted.

    See docs/semantics.md#R10.3.
    """
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    versions = []
    for version in ("1", "2"):
        text = f'def f(ctx): return {{"assets": [{{"assetId": "out", "dataVersion": "{version}"}}]}}\n'
        (project / "edited.py").write_text(text)
        os.utime(project / "edited.py", (1_700_000_000, 1_700_000_000))
        bench = start()
        versions.append(bench.run({"kind": "python", "entrypoint": "edited:f"}).outputs[0].data_version)
    (project / "edited.py").unlink()
    assert versions == ["1", "2"]


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
