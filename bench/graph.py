"""Graphs of any size, stored by a few set-based statements as `apply` and a first round of runs would store them.

Storing 100,000 definitions through `apply` would take longer than the measurement. A test compares both.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from freshline.model.policy import Policy

PROJECT = "bench"
CODE = "bench"
JOB = "bench-job"
COMPONENT = 20
LAYERS = 10
PARENTS = 3
LOAD = """
INSERT INTO projects (name, code_hash, applied_at) VALUES (%(project)s, %(code)s, now());
INSERT INTO workflows (slug, project, version, automatic, policy, job_fingerprint, created_at, applied_at)
SELECT slug, %(project)s, 1, true,
       %(policy)s::jsonb || jsonb_build_object(
           'inputs', (SELECT jsonb_agg(%(input)s::jsonb || jsonb_build_object('asset_id', one) ORDER BY one)
                        FROM unnest(inputs) one),
           'outputs', jsonb_build_array(%(output)s::jsonb || jsonb_build_object('asset_id', slug))),
       %(job)s, now(), now()
  FROM planned ORDER BY slug;
INSERT INTO workflow_versions (workflow_id, version, fingerprint, job_fingerprint, code_hash, needs_spark, definition,
                               source_file, applied_at)
SELECT w.id, 1, w.slug, %(job)s, %(code)s, false,
       jsonb_build_object('slug', w.slug, 'steps', jsonb_build_array(jsonb_build_object(
           'id', 'work', 'job', %(kind)s::jsonb,
           'consumes', (SELECT jsonb_agg(jsonb_build_object('assetId', one)) FROM unnest(p.inputs) one),
           'produces', jsonb_build_array(jsonb_build_object('assetId', w.slug, 'autoMaterialize', %(auto)s::jsonb))))),
       NULL, now()
  FROM workflows w JOIN planned p USING (slug);
INSERT INTO assets (id) SELECT unnest(%(sources)s::text[]);
INSERT INTO assets (id, producer_id, step_id, declaration)
SELECT w.slug, w.id, 'work', jsonb_build_object('assetId', w.slug, 'autoMaterialize', %(auto)s::jsonb) FROM workflows w;
INSERT INTO edges (asset_id, workflow_id, triggers, declaration)
SELECT one, w.id, true, jsonb_build_object('assetId', one)
  FROM workflows w JOIN planned p USING (slug), unnest(p.inputs) one;
INSERT INTO snapshots (asset_id, partition_key, sequence, data_version, changed, workflow_id, produced_at, event_id)
SELECT id, '', 1, 'v1', true, producer_id, now(), freshline_id() FROM assets;
INSERT INTO heads (asset_id, partition_key, sequence, last_sequence, data_version, produced_at)
SELECT id, '', 1, 1, 'v1', now() FROM assets;
INSERT INTO workflow_partitions (workflow_id, partition_key, consumed_versions, job_fingerprint, succeeded_at,
                                 success_cause)
SELECT w.id, '', (SELECT jsonb_object_agg(one, jsonb_build_object('sequence', 1, 'dataVersion', 'v1'))
                    FROM unnest(p.inputs) one), %(job)s, now(), 'missing'
  FROM workflows w JOIN planned p USING (slug);
UPDATE installation SET epoch = epoch + 1, epoch_at = now()
"""
# Analyze only these: a running system never has statistics of the other tables while they are empty.
FILLED = (
    "assets",
    "edges",
    "heads",
    "projects",
    "snapshots",
    "workflow_partitions",
    "workflow_versions",
    "workflows",
)
KIND = {"kind": "python", "entrypoint": "jobs:work"}
AUTO = {"onUpstreamUpdate": True}


@dataclass(frozen=True, slots=True)
class Layout:
    """Which workflow reads which assets. Each workflow has the name of the asset that it makes."""

    sources: Sequence[str]
    consumes: Mapping[str, Sequence[str]]

    @property
    def assets(self) -> int:
        """Return sources and produced assets."""
        return len(self.sources) + len(self.consumes)


def fan(sources: int, consumers: int = 1) -> Layout:
    """Return sources with the given number of consumers each."""
    names = [f"s{number:06}" for number in range(sources)]
    return Layout(names, {f"{name}-c{one:05}": (name,) for name in names for one in range(consumers)})


def components(assets: int) -> Layout:
    """Return unconnected trees of 20 assets: a source, three workflows that read it, and so on."""
    names = [f"t{number:05}" for number in range(max(1, assets // COMPONENT))]
    consumes: dict[str, Sequence[str]] = {}
    for name in names:
        for one in range(1, COMPONENT):
            parent = (one - 1) // PARENTS
            consumes[f"{name}-n{one:02}"] = (f"{name}-n{parent:02}" if parent else name,)
    return Layout(names, consumes)


def layers(assets: int) -> Layout:
    """Return ten layers of equal width, the first of sources; each asset reads three of the layer above."""
    width = max(PARENTS, assets // LAYERS)
    sources = [f"l00-{number:05}" for number in range(width)]
    return Layout(sources, _below(sources, width, range(1, LAYERS)))


def cone(workflows: int) -> Layout:
    """Return ten layers of workflows below one source; the first layer reads it, so one report reaches all."""
    width = max(PARENTS, workflows // LAYERS)
    first = [f"l00-{number:05}" for number in range(width)]
    return Layout(["source"], {**dict.fromkeys(first, ("source",)), **_below(first, width, range(1, LAYERS))})


def _below(above: Sequence[str], width: int, depth: Iterable[int]) -> dict[str, Sequence[str]]:
    chance = random.Random(7)  # noqa: S311 - the same graph every time
    consumes: dict[str, Sequence[str]] = {}
    for layer in depth:
        here = [f"l{layer:02}-{number:05}" for number in range(width)]
        consumes |= {name: tuple(sorted(chance.sample(above, PARENTS))) for name in here}
        above = here
    return consumes


def store(url: str, layout: Layout, code: str = CODE) -> None:
    """Fill an empty database with the graph, everything fresh. `code`: the hash that workers must have."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TEMPORARY TABLE planned (slug text, inputs text[]) ON COMMIT DROP")
        with connection.cursor().copy("COPY planned FROM STDIN") as copy:
            for slug, inputs in layout.consumes.items():
                copy.write_row((slug, list(inputs)))
        for statement in LOAD.split(";"):
            connection.execute(statement.encode(), {**_constants(), "code": code, "sources": list(layout.sources)})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"VACUUM ANALYZE {', '.join(FILLED)}".encode())


def _constants() -> dict[str, Any]:
    """Return the parts of a compiled policy that are the same for all workflows."""
    whole = sample_policy("asset", ("input",)).as_json()
    (input_,), (output,) = whole.pop("inputs"), whole.pop("outputs")
    parts = {"policy": whole, "input": input_, "output": output, "kind": KIND, "auto": AUTO}
    return {"project": PROJECT, "job": JOB, **{name: Jsonb(part) for name, part in parts.items()}}


def sample_policy(slug: str, inputs: Sequence[str]) -> Policy:
    """Return the policy of a workflow that sets only `onUpstreamUpdate`."""
    from freshline.definitions.policy import compile_policy  # noqa: PLC0415 - pydantic, needed once
    from freshline.definitions.schema.workflow import Workflow  # noqa: PLC0415

    return compile_policy(Workflow.model_validate(definition(slug, inputs)))


def definition(slug: str, inputs: Sequence[str]) -> dict[str, Any]:
    """Return the same workflow as a user would write it."""
    made = {"assetId": slug, "autoMaterialize": AUTO}
    step = {"id": "work", "job": KIND, "consumes": [{"assetId": one} for one in inputs], "produces": [made]}
    return {"slug": slug, "steps": [step]}
