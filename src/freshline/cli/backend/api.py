"""An installation behind its HTTP API: the same questions and changes as `seam` names, asked of `/api/v1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from freshline.api import MAX_PAGE
from freshline.cli.backend.http import Wire
from freshline.cli.render.format import parse_time
from freshline.model.json import Json
from freshline.settings import Settings

if TYPE_CHECKING:
    from freshline.store.operations.report import Reported  # it loads the driver


class Reader:
    """Looks at an installation through its API, and answers as the store's reader does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def status(self, name: str | None = None) -> Json:
        """How everything stands, or one asset or workflow."""
        return self._one("status", name=name)

    def find(self, name: str) -> Json:
        """The asset `{assetId, workflowSlug, ...}` or the workflow `{slug}` of this name; an asset wins."""
        found = [one for one in self.status(name)["assets"] if one["assetId"] == name]
        return found[0] if found else {"slug": name}

    def why(self, name: str, limit: int = 10) -> list[Json]:
        """The last decisions about an asset, or about a workflow by its slug."""
        about = "workflow" if "slug" in self.find(name) else "asset"
        return self._pages(limit, None, "decisions", **{about: name})

    def plan(self, asset: str, settings: Settings) -> Json:  # noqa: ARG002 - those of the API count
        """What would run if the asset changed now."""
        return self._one("assets", asset, "plan")

    def graph(self, asset: str | None = None) -> Json:
        """Who makes and who reads which asset."""
        return self._one("assets", "graph", asset=asset)

    def snapshot(self, asset: str, version: int | None = None) -> Json:
        """One snapshot of an asset: the given version, or the current one."""
        return self._one("assets", asset, "snapshot", version=version)

    def runs(
        self, limit: int = 20, after: str | None = None, status: str | None = None, workflow: str | None = None
    ) -> list[Json]:
        """Runs, newest first."""
        return self._pages(limit, after, "runs", status=status, workflow=workflow)

    def run(self, run_id: str) -> Json:
        """One run by its id or a unique suffix of it."""
        return self._one("runs", run_id)

    def find_run(self, text: str) -> str:
        """The full id of the run that `text` names."""
        return str(self.run(text)["id"])

    def moving_runs(self, since: datetime, tracked: Sequence[str] = (), workflow: str | None = None) -> list[Json]:
        """Runs that may have moved, oldest first: queued since (with overlap), active, or tracked by the follower."""
        found = self._since("runs", since, workflow=workflow)
        for status in ("queued", "running"):
            found += self._pages(None, None, "runs", status=status, workflow=workflow)
        known = {one["id"]: one for one in found}
        for run_id in tracked:
            if run_id not in known:
                known[run_id] = self.run(run_id)
                del known[run_id]["outputs"]
        return sorted(known.values(), key=lambda one: (parse_time(one["queuedAt"]), one["id"]))

    def logs(self, run_id: str, after: int = -1) -> list[Json]:
        """The log lines of a run, those after line `after`."""
        return self._pages(None, str(after), "runs", run_id, "logs")

    def events(
        self,
        limit: int = 20,
        after: str | None = None,
        type: str | None = None,  # noqa: A002 - the field's name
        subject: str | None = None,
    ) -> list[Json]:
        """Events, newest first."""
        return self._pages(limit, after, "events", type=type, subject=subject)

    def event(self, text: str, limit: int = 100) -> Json:
        """One event by its id or position, with what became of it."""
        return self._one("events", text, limit=limit)

    def events_since(self, position: int, type: str | None = None, subject: str | None = None) -> list[Json]:  # noqa: A002
        """Up to 1,000 stamped events after a position, oldest first."""
        found: list[Json] = self._one("feed", position=position, type=type, subject=subject)["items"]
        return found

    def position(self, after: str | None = None) -> int:
        """The position of the event that `after` names, else of the newest one; 0 before the first."""
        found = self._one("about") if after is None else self._one("events", after, limit=1)
        return int(found["position"] or 0)

    def decisions(
        self, limit: int = 20, after: str | None = None, workflow: str | None = None, asset: str | None = None
    ) -> list[Json]:
        """Decisions, newest first."""
        return self._pages(limit, after, "decisions", workflow=workflow, asset=asset)

    def decisions_since(self, since: datetime, workflow: str | None = None) -> list[Json]:
        """Decisions made since then (with overlap), oldest first."""
        return self._since("decisions", since, workflow=workflow)[::-1]

    def workers(self, limit: int = 100, *, stopped: bool = False) -> list[Json]:
        """The processes that announced themselves."""
        found: list[Json] = self._one("workers", limit=limit, stopped=str(stopped).lower())["items"]
        return found

    def audit(self, limit: int = 20, after: str | None = None, subject: str | None = None) -> list[Json]:
        """Who changed what, newest first; the token needs the scope `admin`."""
        return self._pages(limit, after, "audit", subject=subject)

    def now(self) -> datetime:
        """The database's clock, the only one that counts."""
        return parse_time(self._one("about")["at"])

    def _one(self, *path: str, **params: Any) -> Json:
        found: Json = self._wire.get(*path, **params)
        return found

    def _since(self, path: str, since: datetime, **params: Any) -> list[Json]:
        from freshline.store.read.reader import OVERLAP  # noqa: PLC0415 - help must not load the driver

        return self._pages(None, None, path, since=(since - OVERLAP).isoformat(), **params)

    def _pages(self, limit: int | None, after: str | None, *path: str, **params: Any) -> list[Json]:
        """A listing, page by page, up to `limit` entries or to its end."""
        found: list[Json] = []
        while limit is None or len(found) < limit:
            most = MAX_PAGE if limit is None else min(MAX_PAGE, limit - len(found))
            part = self._one(*path, limit=most, after=after, **params)
            found += part["items"]
            after = part["next"]
            if after is None:
                break
        return found


class Operations:
    """Changes an installation through its API. The audit names the token."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def report(
        self,
        asset_id: str,
        *,
        version: str | None = None,
        key: str | None = None,
        sequence: int | None = None,
        payload: Any = None,
    ) -> Reported:
        """Report a change of a source asset."""
        given = {"dataVersion": version, "key": key, "sequence": sequence, "payload": payload}
        found: Reported = self._wire.post("assets", asset_id, "produced", **given)
        return found

    def expire(self, asset_id: str) -> Json:
        """As if the asset's freshness had run out."""
        return self._change("assets", asset_id, "expire")

    def request_run(
        self,
        slug: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        full_refresh: bool = False,
    ) -> str:
        """Queue a manual run (R6.5); its id."""
        asked = {"parameters": dict(parameters or {}), "fullRefresh": full_refresh, "key": key}
        return str(self._change("workflows", slug, "run", **asked)["id"])

    def cancel(self, run_id: str, reason: str = "canceled by a user") -> str:
        """End a run; its status."""
        return str(self._change("runs", run_id, "cancel", reason=reason)["status"])

    def pause(self, slug: str, until: datetime | None = None) -> None:
        """No automatic run of the workflow starts until then."""
        self._change("workflows", slug, "pause", until=until.isoformat() if until else None)

    def resume(self, slug: str) -> None:
        """Automatic runs of the workflow start again."""
        self._change("workflows", slug, "resume")

    def reset(self, slug: str) -> None:
        """Forget failures and a cancellation."""
        self._change("workflows", slug, "reset")

    def _change(self, *path: str, **body: Any) -> Json:
        found: Json = self._wire.post(*path, **body)
        return found


class Client:
    """An installation behind its API."""

    def __init__(self, wire: Wire) -> None:
        self.reader = Reader(wire)
        self.operations = Operations(wire)


@contextmanager
def connected(settings: Settings) -> Iterator[Client]:
    """The installation whose API `settings` name."""
    wire = Wire(settings.api_url or "", settings.api_token)
    try:
        yield Client(wire)
    finally:
        wire.close()
