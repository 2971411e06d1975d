"""The Spark application of a runner: its first session, its health, and how it is canceled and closed."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pyspark.sql import SparkSession

from freshline.spark.connect import Remote, answers
from freshline.spark.session import open_session

SETTLE_POLL_S = 0.05
JVM_EXIT_S = 5.0  # for a JVM that no longer answers to exit
OUT_OF_MEMORY = {3, 52}  # exit codes of a JVM with ExitOnOutOfMemoryError (session.py), and of Spark itself


class Health(StrEnum):
    """The state of Spark: good, stopped by user code, gone with our own JVM, or lost with a cluster or a server."""

    GOOD = "good"
    STOPPED = "stopped"
    GONE = "gone"
    LOST = "lost"


class Application:
    """Spark as one process uses it: a JVM on this machine, a cluster, or a Spark Connect server.

    `root` is open as long as the process lives. `local`: all computation happens in our own JVM.
    """

    def __init__(self, root: SparkSession, *, remote: Remote | None, local: bool) -> None:
        self.root = root
        self.remote = remote
        self.local = local
        self.session_stopped = False  # by user code, on a Connect server

    @classmethod
    def open(
        cls,
        *,
        master: str | None,
        remote: Remote | None,
        scratch: Path,
        java: str | None = None,
        own_conf: Mapping[str, str] | None = None,
    ) -> Application:
        """Start or reach Spark; see `open_session`."""
        root = open_session(master=master, remote=remote, scratch=scratch, java=java, own_conf=own_conf)
        return cls(root, remote=remote, local=remote is None and (master or "local").startswith("local"))

    @property
    def classic(self) -> bool:
        """Whether the driver is our own JVM, and not a Connect server."""
        return self.remote is None

    @property
    def jvm(self) -> subprocess.Popen[bytes] | None:
        """Our own JVM; None with a Connect server."""
        return getattr(self.root.sparkContext._gateway, "proc", None) if self.classic else None  # noqa: SLF001 - not public

    def new_session(self, session_id: str | None = None) -> SparkSession:
        """Open a session for one step; on a Connect server with this id."""
        return self.root.newSession() if self.remote is None else self.remote.open(session_id)

    def health(self) -> Health:
        """Return whether another step can be executed."""
        try:
            if self.remote is not None:
                return self._server_health(self.remote)
            stopped = self.root.sparkContext._jsc is None  # noqa: SLF001 - not public
            self.root.conf.get("spark.app.name", "")  # answered by the JVM, not from a cache
        except Exception:  # noqa: BLE001 - any failure to answer
            return Health.GONE
        if stopped or not self.has_stopped_itself():
            return Health.STOPPED if stopped else Health.GOOD
        return Health.STOPPED if self.local else Health.LOST

    def _server_health(self, remote: Remote) -> Health:
        """Probe with a new session: a healthy server closes one that was idle for an hour."""
        probe = remote.open()
        try:
            if not answers(probe):
                return Health.LOST
        finally:
            probe.stop()
        return Health.STOPPED if self.session_stopped else Health.GOOD

    def has_stopped_itself(self) -> bool:
        """Return whether Spark has stopped, as it does when the cluster takes its application away."""
        try:
            context = self.root.sparkContext._jsc  # noqa: SLF001 - not public
            return context is not None and bool(context.sc().isStopped())
        except Exception:  # noqa: BLE001 - the JVM is gone, which is a crash and not a loss of the cluster
            return False

    def lost_where(self, session: SparkSession) -> str | None:
        """Return the name of the cluster or server if it was lost while `session` was in use."""
        if self.remote is not None:
            self.session_stopped = session.is_stopped
            return None if self.session_stopped or answers(session) else self.remote.place
        return "the cluster" if not self.local and self.has_stopped_itself() else None

    def lacks_archive(self) -> bool:
        """Return whether our own JVM started without the class archive (`freshline.spark.jvm_cds`)."""
        if not self.classic:
            return False
        return "SharedArchiveFile" not in self.root.sparkContext.getConf().get("spark.driver.extraJavaOptions", "")

    def out_of_memory(self) -> bool:
        """Return whether our own JVM exited because its heap was full."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.jvm is not None and self.jvm.wait(JVM_EXIT_S) in OUT_OF_MEMORY
        return False

    def hide(self, text: str) -> str:
        """Return `text` without our credentials."""
        return self.remote.hide(text) if self.remote else text

    def cancel(self, session: SparkSession) -> None:
        """Cancel the jobs that run now; jobs that start a moment later are not affected."""
        if self.classic:
            self.root.sparkContext.cancelAllJobs()
        else:
            session.interruptAll()

    def settle(self) -> None:
        """Return when Spark's cores are free: tasks of a canceled write go on for a while, and write files."""
        with contextlib.suppress(Exception):
            while self.classic and self._running_tasks():
                time.sleep(SETTLE_POLL_S)
            if self.remote is None:
                self.root.range(1).count()
            else:
                with self.remote.open() as probe:
                    probe.range(1).count()

    def _running_tasks(self) -> int:
        executors = self.root.sparkContext._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001 - not public
        return sum(executor.numRunningTasks() for executor in executors)

    def close(self) -> None:
        """Release resources that others could use; a local JVM ends with the process."""
        if not self.local:
            self.root.stop()
