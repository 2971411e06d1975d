-- name: epoch
-- purpose: read the definitions epoch
SELECT epoch, warehouse_id::text FROM installation

-- name: bump_epoch
-- purpose: increase the definitions epoch, which invalidates cached graphs
UPDATE installation SET epoch = epoch + 1, epoch_at = freshline_now()

-- name: graph
-- purpose: read the topology of all workflows that are not retired; as arrays, because rows take twice as long
SELECT (SELECT epoch FROM installation) AS epoch, w.workflows, w.slugs, w.not_automatic, a.made, a.makers, e.read, e.readers,
       e.not_triggering, e.declared, (SELECT json_object_agg(id, partitioning) FROM assets WHERE partitioning IS NOT NULL)
       AS partitionings,
       (SELECT json_object_agg(x.id, y.policy -> 'retain_ms') FROM assets x JOIN workflows y ON y.id = x.producer_id
         WHERE x.partitioning IS NOT NULL AND y.policy -> 'retain_ms' IS NOT NULL AND y.retired_at IS NULL) AS retained
  FROM (SELECT json_agg(id) AS workflows, json_agg(slug) AS slugs, json_agg(id) FILTER (WHERE NOT automatic) AS not_automatic
          FROM workflows WHERE retired_at IS NULL) w,
       (SELECT json_agg(id) AS made, json_agg(producer_id) AS makers FROM assets WHERE producer_id IS NOT NULL) a,
       (SELECT json_agg(asset_id) AS read, json_agg(workflow_id) AS readers,
               json_agg(json_build_array(asset_id, workflow_id)) FILTER (WHERE NOT triggers) AS not_triggering,
               json_agg(json_build_array(asset_id, workflow_id, partitions)) FILTER (WHERE mapped) AS declared FROM edges) e

-- name: stored_workflows
-- purpose: read every workflow with its current version, for the comparison with a project
SELECT w.id, w.slug, w.project, w.version, w.retired_at IS NOT NULL AS retired, w.automatic, v.fingerprint,
       v.job_fingerprint, v.code_hash, v.definition, p.succeeded_at IS NOT NULL AS succeeded,
       p.job_fingerprint AS succeeded_fingerprint
  FROM workflows w
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, '')

-- name: stored_assets
-- purpose: read every asset with its producer
SELECT a.id, w.slug AS producer, w.project, a.source_project, a.partitioning, h.sequence IS NOT NULL AS produced
  FROM assets a
  LEFT JOIN workflows w ON w.id = a.producer_id
  LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = ''

-- name: stored_edges
-- purpose: read who consumes what, by slug
SELECT e.asset_id, w.slug FROM edges e JOIN workflows w ON w.id = e.workflow_id

-- name: readers
-- purpose: find the workflows that read these assets
SELECT DISTINCT w.id, w.slug FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
 WHERE e.asset_id = ANY (%(assets)s) ORDER BY w.id

-- name: durations
-- purpose: read the p95 duration of the last successful runs of these workflows, if it is long
SELECT w.slug, d.p95_ms, d.runs
  FROM workflows w,
       LATERAL (SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY x.ms)::bigint AS p95_ms, count(*) AS runs
                  FROM (SELECT ceil(extract(epoch FROM r.finished_at - r.started_at) * 1000) AS ms FROM runs r
                         WHERE (r.workflow_id, r.partition_key) = (w.id, '') AND r.status = 'succeeded'
                         ORDER BY r.queued_at DESC LIMIT %(most)s) x) d
 WHERE w.slug = ANY (%(slugs)s) AND d.p95_ms > %(longer_ms)s

-- name: save_project
-- purpose: store the project, the hash of its code and the digests of its files
INSERT INTO projects (name, code_hash, code_files, applied_at)
VALUES (%(name)s, %(code_hash)s, %(code_files)s, freshline_now())
ON CONFLICT (name) DO UPDATE
   SET code_hash = excluded.code_hash, code_files = excluded.code_files, applied_at = excluded.applied_at

-- name: stored_pools
-- purpose: read the pools that a project declares
SELECT name, slots FROM pools WHERE project = %(project)s AND retired_at IS NULL ORDER BY name

-- name: stored_code_files
-- purpose: read the digests of the Python files of the last apply
SELECT code_files FROM projects WHERE name = %(project)s

-- name: save_pools
-- purpose: store the pools of a project; a removed pool keeps its limit for the runs that still name it
WITH declared AS (
    INSERT INTO pools (project, name, slots)
    SELECT %(project)s, key, value::integer FROM jsonb_each_text(%(pools)s) ORDER BY key
    ON CONFLICT (project, name) DO UPDATE SET slots = excluded.slots, retired_at = NULL
)
UPDATE pools SET retired_at = freshline_now()
 WHERE project = %(project)s AND retired_at IS NULL AND NOT %(pools)s::jsonb ? name

-- name: cancel_queued
-- purpose: cancel queued automatic runs, whose causes stay pending, and manual ones whose code or workflow is gone
WITH ended AS (
    UPDATE runs SET status = 'canceled', finished_at = freshline_now(), cancel_reason = %(reason)s
     WHERE id IN (SELECT id FROM runs WHERE workflow_id = ANY (%(workflows)s) AND status = 'queued'
                     AND (trigger_type <> 'manual' OR code_hash <> %(code_hash)s
                          OR workflow_id = ANY (%(retired)s))
                   ORDER BY workflow_id, partition_key, id FOR UPDATE)
    RETURNING id, workflow_id, partition_key, trigger
)
INSERT INTO events (id, time, type, subject, data)
SELECT freshline_id(), freshline_now(), 'workflow.run.canceled', w.slug,
       jsonb_build_object('workflowSlug', w.slug, 'workflowId', w.id, 'runId', e.id, 'partitionKey', e.partition_key,
                          'trigger', e.trigger, 'reason', %(reason)s::text)
  FROM ended e JOIN workflows w ON w.id = e.workflow_id

-- name: rename_jobs
-- purpose: store the fingerprints of jobs that did not change as another method computes them
WITH same AS (
    SELECT * FROM jsonb_to_recordset(%(rows)s) AS r (workflow_id bigint, before text, after text)
), versions AS (
    UPDATE workflow_versions v SET job_fingerprint = s.after
      FROM same s WHERE v.workflow_id = s.workflow_id AND v.job_fingerprint = s.before
)
UPDATE workflows w SET job_fingerprint = s.after FROM same s WHERE w.id = s.workflow_id

-- name: rename_succeeded_jobs
-- purpose: do the same where partitions refer to the job of their last success, or to one that was declined
UPDATE workflow_partitions p
   SET job_fingerprint = CASE WHEN p.job_fingerprint = s.before THEN s.after ELSE p.job_fingerprint END,
       declined = CASE WHEN p.declined ->> 'job' = s.before THEN jsonb_set(p.declined, '{job}', to_jsonb(s.after))
                       ELSE p.declined END
  FROM jsonb_to_recordset(%(rows)s) AS s (workflow_id bigint, before text, after text)
 WHERE p.workflow_id = s.workflow_id AND (p.job_fingerprint = s.before OR p.declined ->> 'job' = s.before)

-- name: save_workflows
-- purpose: store added, changed and re-added workflows; a re-added slug keeps its history
INSERT INTO workflows AS w (slug, project, version, automatic, policy, job_fingerprint, pool, max_concurrency,
                            created_at, applied_at)
SELECT slug, project, version, automatic, policy, job_fingerprint, coalesce(pool, ''), max_concurrency,
       (SELECT freshline_now()), (SELECT freshline_now()) -- one time for all: it is the origin of what the apply makes stale
  FROM jsonb_to_recordset(%(rows)s) AS r (
        slug text, project text, version integer, automatic boolean, policy jsonb, job_fingerprint text, pool text,
        max_concurrency integer)
 ORDER BY slug
ON CONFLICT (slug) DO UPDATE
   SET project = excluded.project, version = excluded.version, automatic = excluded.automatic,
       policy = excluded.policy, job_fingerprint = excluded.job_fingerprint, pool = excluded.pool,
       max_concurrency = excluded.max_concurrency, applied_at = excluded.applied_at, retired_at = NULL
RETURNING w.id, w.slug

-- name: save_versions
-- purpose: store definitions as they were applied
INSERT INTO workflow_versions (workflow_id, version, fingerprint, job_fingerprint, code_hash, needs_spark, definition,
                               source_file, changes, applied_at)
SELECT w.id, r.version, r.fingerprint, r.job_fingerprint, r.code_hash, r.needs_spark, r.definition, r.source_file,
       r.changes, freshline_now()
  FROM jsonb_to_recordset(%(rows)s) AS r (
        slug text, version integer, fingerprint text, job_fingerprint text, code_hash text, needs_spark boolean,
        definition jsonb, source_file text, changes jsonb)
  JOIN workflows w ON w.slug = r.slug
 ORDER BY w.id

-- name: retire_workflows
-- purpose: retire workflows that are no longer in the project; their history stays
UPDATE workflows SET retired_at = freshline_now() WHERE id = ANY (%(workflows)s)

-- name: mark_reshaped
-- purpose: mark these workflows and those below them: what they consumed may be a mix by the new graph
WITH RECURSIVE below (workflow_id) AS (
    SELECT id FROM workflows WHERE slug = ANY (%(slugs)s)
    UNION
    SELECT e.workflow_id FROM below b JOIN assets a ON a.producer_id = b.workflow_id JOIN edges e ON e.asset_id = a.id
)
UPDATE workflows SET reshaped_epoch = (SELECT epoch + 1 FROM installation)
 WHERE id IN (SELECT w.id FROM workflows w JOIN below b ON b.workflow_id = w.id ORDER BY w.id FOR NO KEY UPDATE OF w)

-- name: release_assets
-- purpose: remove the producer of the assets of changed and retired workflows; the new definitions set it again
UPDATE assets SET producer_id = NULL, step_id = NULL
 WHERE id IN (SELECT id FROM assets WHERE producer_id = ANY (%(workflows)s) ORDER BY id FOR NO KEY UPDATE)

-- name: save_assets
-- purpose: store assets that are produced, declared as sources, or only consumed
INSERT INTO assets AS a (id, producer_id, step_id, declaration, source_project, partitioning)
SELECT r.id, w.id, CASE WHEN w.id IS NOT NULL THEN r.step_id END, coalesce(r.declaration, '{}'), r.source_project,
       r.partitioning
  FROM jsonb_to_recordset(%(rows)s) AS r (
        id text, slug text, step_id text, declaration jsonb, source_project text, partitioning jsonb)
  LEFT JOIN workflows w ON w.slug = r.slug
 ORDER BY r.id
ON CONFLICT (id) DO UPDATE
   SET producer_id = coalesce(excluded.producer_id, a.producer_id),
       step_id = coalesce(excluded.step_id, a.step_id),
       declaration = CASE WHEN excluded.producer_id IS NOT NULL OR excluded.source_project IS NOT NULL
                          THEN excluded.declaration ELSE a.declaration END,
       partitioning = CASE WHEN excluded.producer_id IS NOT NULL OR excluded.source_project IS NOT NULL
                           THEN excluded.partitioning ELSE a.partitioning END,
       source_project = CASE WHEN excluded.producer_id IS NOT NULL THEN NULL
                             ELSE coalesce(excluded.source_project, a.source_project) END

-- name: forget_sources
-- purpose: remove the declarations of sources that the project no longer declares
UPDATE assets SET source_project = NULL, declaration = CASE WHEN producer_id IS NULL THEN '{}' ELSE declaration END
 WHERE source_project = %(project)s AND NOT id = ANY (%(sources)s)
RETURNING id

-- name: drop_edges
-- purpose: delete the inputs of changed and retired workflows
DELETE FROM edges WHERE workflow_id = ANY (%(workflows)s)

-- name: save_edges
-- purpose: store what workflows consume from outside
INSERT INTO edges (asset_id, workflow_id, triggers, declaration, partitions)
SELECT r.asset_id, w.id, r.triggers, r.declaration, r.partitions
  FROM jsonb_to_recordset(%(rows)s) AS r (asset_id text, slug text, triggers boolean, declaration jsonb, partitions jsonb)
  JOIN workflows w ON w.slug = r.slug
 ORDER BY r.asset_id, w.id

-- name: mark_mapped
-- purpose: note which edges have partitions on one side, also of other projects that consume what was applied
UPDATE edges e SET mapped = NOT e.mapped
 WHERE e.mapped <> (e.asset_id IN (SELECT a.id FROM assets a WHERE a.partitioning IS NOT NULL)
                    OR e.workflow_id IN (SELECT a.producer_id FROM assets a
                                          WHERE a.partitioning IS NOT NULL AND a.producer_id IS NOT NULL))

-- name: mark_unused
-- purpose: note since when assets are neither produced, consumed nor declared, and forget it for those in use again
UPDATE assets a SET unused_since = CASE WHEN f.unused THEN freshline_now() END
  FROM (SELECT s.id, s.producer_id IS NULL AND s.source_project IS NULL
                     AND NOT EXISTS (SELECT FROM edges e WHERE e.asset_id = s.id) AS unused
          FROM assets s) f
 WHERE f.id = a.id AND f.unused IS DISTINCT FROM (a.unused_since IS NOT NULL)

-- name: heal_partitions
-- purpose: close the breaker and end the cooldown after a new definition version; return whose breaker was open
WITH before AS MATERIALIZED (
    SELECT workflow_id, partition_key, breaker_at FROM workflow_partitions
     WHERE workflow_id = ANY (%(workflows)s) AND (failures > 0 OR canceled IS NOT NULL OR cause_repeats > 0)
     ORDER BY workflow_id, partition_key FOR UPDATE
), healed AS (
    UPDATE workflow_partitions p
       SET failures = 0, eligible_at = NULL, breaker_at = NULL, probed_versions = NULL, canceled = NULL, cause_repeats = 0
      FROM before b WHERE (p.workflow_id, p.partition_key) = (b.workflow_id, b.partition_key)
)
SELECT b.workflow_id, w.slug, b.partition_key FROM before b JOIN workflows w ON w.id = b.workflow_id
 WHERE b.breaker_at IS NOT NULL ORDER BY b.workflow_id

-- name: distrust_gained
-- purpose: make a workflow stale that gained an output which it made earlier with another job
UPDATE workflow_partitions p
   SET job_fingerprint = g.job_fingerprint
  FROM (SELECT a.producer_id, h.partition_key, min(v.job_fingerprint) AS job_fingerprint
          FROM assets a
          JOIN heads h ON h.asset_id = a.id
          JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
          JOIN runs r ON r.id = s.run_id AND r.workflow_id = a.producer_id
          JOIN workflow_versions v ON (v.workflow_id, v.version) = (r.workflow_id, r.version)
          JOIN workflow_partitions o ON (o.workflow_id, o.partition_key) = (a.producer_id, h.partition_key)
         WHERE a.id = ANY (%(assets)s) AND v.job_fingerprint <> o.job_fingerprint
         GROUP BY a.producer_id, h.partition_key) g
 WHERE (p.workflow_id, p.partition_key) = (g.producer_id, g.partition_key)

-- name: never_ran
-- purpose: find the workflows among these slugs that consumed nothing yet
SELECT w.id FROM workflows w
 WHERE w.slug = ANY (%(slugs)s)
   AND NOT EXISTS (SELECT FROM workflow_partitions p WHERE p.workflow_id = w.id AND p.consumed_versions IS NOT NULL)
 ORDER BY w.id

-- name: accept_heads
-- purpose: record the current heads of these workflows as their own, although they did not make them from what is consumed
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, accepted)
SELECT a.producer_id, h.partition_key, jsonb_object_agg(h.asset_id, h.sequence)
  FROM assets a JOIN heads h ON h.asset_id = a.id AND h.partition_key = ''
 WHERE a.producer_id = ANY (%(workflows)s)
 GROUP BY a.producer_id, h.partition_key
 ORDER BY a.producer_id
ON CONFLICT (workflow_id, partition_key) DO UPDATE SET accepted = excluded.accepted

-- name: take_baseline
-- purpose: accept existing data as fresh: store the heads as the consumed versions
INSERT INTO workflow_partitions AS p (workflow_id, partition_key, consumed_versions, mixed, job_fingerprint)
SELECT w.id, '', coalesce(jsonb_object_agg(h.asset_id, jsonb_build_object('sequence', h.sequence,
                                                                          'dataVersion', h.data_version))
                          FILTER (WHERE h.asset_id IS NOT NULL), '{}'), true, w.job_fingerprint
  FROM workflows w
  LEFT JOIN edges e ON e.workflow_id = w.id
  LEFT JOIN heads h ON h.asset_id = e.asset_id AND h.partition_key = ''
 WHERE w.id = ANY (%(workflows)s)
 GROUP BY w.id, w.job_fingerprint
 ORDER BY w.id
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET consumed_versions = CASE WHEN %(force)s OR p.consumed_versions IS NULL THEN excluded.consumed_versions ELSE p.consumed_versions END,
       mixed = %(force)s OR p.consumed_versions IS NULL OR p.mixed,
       job_fingerprint = CASE WHEN %(force)s OR p.job_fingerprint IS NULL THEN excluded.job_fingerprint
                              ELSE p.job_fingerprint END

-- name: incremental_tables
-- purpose: list the tables of workflows that are appended to or merged, and whether rows of older code are to be computed again
SELECT a.id, w.id AS workflow_id, w.slug,
       coalesce(a.declaration #>> '{table,onCodeChange}', 'ask') = 'rebuild' AND a.partitioning IS NULL
       AND p.job_fingerprint <> w.job_fingerprint AND s.rows IS DISTINCT FROM 0
       AND freshline_older_code(s.code, w.id) IS NOT NULL AS rebuilds
  FROM workflows w
  JOIN assets a ON a.producer_id = w.id AND a.declaration #>> '{table,mode}' IN ('append', 'merge')
  LEFT JOIN heads h ON h.asset_id = a.id AND h.partition_key = ''
  LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, '')
 WHERE w.slug = ANY (%(slugs)s)
 ORDER BY a.id

-- name: clear_expiry
-- purpose: delete the expiry timers of a baseline, which are set again
DELETE FROM timers WHERE kind = 'expiry' AND asset_id IN (SELECT id FROM assets WHERE producer_id = ANY (%(workflows)s))

-- name: declared_policies
-- purpose: read the policies of these workflows before they change, for the freshness that they declare
SELECT policy FROM workflows WHERE id = ANY (%(workflows)s) ORDER BY retired_at IS NULL, retired_at, id

-- name: clocked_assets
-- purpose: read the assets of these workflows with their policies, to set their timers again
SELECT a.id AS asset_id, a.partitioning, w.policy
  FROM assets a JOIN workflows w ON w.id = a.producer_id
 WHERE a.producer_id = ANY (%(workflows)s)
 ORDER BY a.id

-- name: asset_clocks
-- purpose: read when assets, or their newest partitions, were produced, and what their timers say
SELECT k.asset_id, k.partition_key, h.produced_at, t.reason, t.expired_at, t.expired_reason,
       t.asset_id IS NOT NULL AS has_timer, o.expired_at AS overdue_at
  FROM unnest(%(assets)s::text[], %(keys)s::text[]) AS k (asset_id, partition_key)
  LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (k.asset_id, k.partition_key)
  LEFT JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (k.asset_id, k.partition_key, 'expiry')
  LEFT JOIN timers o ON (o.asset_id, o.partition_key, o.kind) = (k.asset_id, k.partition_key, 'overdue')
 ORDER BY k.asset_id, k.partition_key

-- name: drop_timers
-- purpose: delete the freshness timers of assets without a producer
DELETE FROM timers WHERE kind IN ('expiry', 'overdue') AND asset_id IN (SELECT id FROM assets WHERE producer_id IS NULL)

-- name: set_due
-- purpose: set new due times; an asset that is expired stays expired
INSERT INTO timers AS t (asset_id, partition_key, kind, due_at, reason)
SELECT asset_id, partition_key, kind, due_at, reason
  FROM jsonb_to_recordset(%(timers)s) AS n (
        asset_id text, partition_key text, kind text, due_at timestamptz, reason text)
 ORDER BY asset_id, partition_key, kind
ON CONFLICT (asset_id, partition_key, kind) DO UPDATE SET due_at = excluded.due_at, reason = excluded.reason

-- name: unset_due
-- purpose: remove due times; an asset that is expired stays expired, unless its freshness is no longer declared
WITH gone AS (
    SELECT * FROM jsonb_to_recordset(%(timers)s) AS n (asset_id text, partition_key text, kind text, forget boolean)
), kept AS (
    UPDATE timers t SET due_at = NULL, reason = NULL FROM gone n
     WHERE (t.asset_id, t.partition_key, t.kind) = (n.asset_id, n.partition_key, n.kind)
       AND NOT n.forget AND t.expired_at IS NOT NULL
)
DELETE FROM timers t USING gone n
 WHERE (t.asset_id, t.partition_key, t.kind) = (n.asset_id, n.partition_key, n.kind)
   AND (n.forget OR t.expired_at IS NULL)

-- name: lock_considerations
-- purpose: keep reconcilers away from these workflows until the commit
SELECT FROM considerations WHERE workflow_id = ANY (%(workflows)s) ORDER BY workflow_id, partition_key FOR UPDATE

-- name: consider
-- purpose: add considerations for these workflows
INSERT INTO considerations AS c (workflow_id, partition_key, not_before, class, noted_at)
SELECT id, '', m.now, 'event', m.now
  FROM unnest(%(workflows)s::bigint[]) AS w (id), (SELECT freshline_now() AS now) m
 ORDER BY id
ON CONFLICT (workflow_id, partition_key) DO UPDATE
   SET not_before = least(c.not_before, excluded.not_before), class = 'event', noted_at = excluded.noted_at,
       evaluations = 0, keys_left = NULL, expanded_to = NULL, again_at = NULL -- the partitions may be others now

-- name: drop_considerations
-- purpose: delete the considerations of retired workflows
DELETE FROM considerations WHERE workflow_id = ANY (%(workflows)s)

-- name: wake_waiting
-- purpose: make workflows due that waited for a changed or retired workflow
UPDATE considerations SET not_before = least(not_before, freshline_now()), evaluations = 0
 WHERE (workflow_id, partition_key) IN (
        SELECT workflow_id, partition_key FROM considerations WHERE blocker_id = ANY (%(workflows)s)
         ORDER BY workflow_id, partition_key FOR UPDATE SKIP LOCKED)

-- name: clocks
-- purpose: read when the assets of these workflows expire, for the preview
SELECT t.asset_id, t.due_at, t.reason FROM assets a
  JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (a.id, '', 'expiry')
 WHERE a.producer_id = ANY (%(workflows)s) AND t.due_at IS NOT NULL

-- name: running_jobs
-- purpose: read the job fingerprints of active runs whose definition is not the current one
SELECT r.id::text, v.job_fingerprint FROM runs r
  JOIN workflows w ON w.id = r.workflow_id AND w.version <> r.version
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (r.workflow_id, r.version)
 WHERE r.workflow_id = ANY (%(workflows)s) AND r.status IN ('queued', 'running')

-- name: history_workflows
-- purpose: read the applied definitions, for a simulation
SELECT w.slug, v.definition FROM workflows w
  JOIN workflow_versions v ON (v.workflow_id, v.version) = (w.id, w.version)
 WHERE w.retired_at IS NULL ORDER BY w.slug

-- name: history_start
-- purpose: read when the first of the current workflows was applied, for a simulation
SELECT min(created_at) AS at FROM workflows WHERE retired_at IS NULL

-- name: history_reports
-- purpose: read the reports since a time, for a simulation, without those out of order
SELECT s.asset_id, s.partition_key, s.produced_at, s.data_version, s.changed
  FROM snapshots s
 WHERE s.run_id IS NULL AND s.produced_at >= %(since)s
 ORDER BY s.produced_at, s.asset_id, s.partition_key, s.sequence LIMIT %(most)s::bigint

-- name: history_sources
-- purpose: read the partitionings of sources, for a simulation
SELECT id AS asset_id, partitioning FROM assets WHERE partitioning IS NOT NULL AND producer_id IS NULL ORDER BY id

-- name: history_keys
-- purpose: read which partitions of sources had data at a time, dynamic ones as they were first seen, for a simulation
SELECT h.asset_id, h.partition_key
  FROM assets a JOIN heads h ON h.asset_id = a.id AND h.partition_key <> ''
  LEFT JOIN partition_keys k ON (k.asset_id, k.partition_key) = (h.asset_id, h.partition_key)
 WHERE a.partitioning IS NOT NULL AND a.producer_id IS NULL
   AND (h.retired_at IS NULL OR h.retired_at >= %(since)s)
   AND (h.produced_at < %(since)s
        OR EXISTS (SELECT FROM snapshots s WHERE (s.asset_id, s.partition_key) = (h.asset_id, h.partition_key)
                      AND s.produced_at < %(since)s))
 ORDER BY h.asset_id, k.first_seen, h.partition_key LIMIT %(most)s::bigint

-- name: history_runs
-- purpose: read the duration of runs since a time, of a batch its share, their result, and whether their outputs changed
SELECT w.slug, r.status,
       extract(epoch FROM r.finished_at - r.started_at)::float / coalesce(r.batch_size, 1) AS seconds,
       EXISTS (SELECT FROM snapshots s WHERE s.run_id = r.id AND s.changed) AS changed
  FROM runs r JOIN workflows w ON w.id = r.workflow_id
 WHERE r.status IN ('succeeded', 'failed') AND r.started_at >= %(since)s
 ORDER BY r.started_at, r.id LIMIT %(most)s::bigint

-- name: project_names
-- purpose: list projects, for "did you mean"
SELECT name FROM projects ORDER BY name

-- name: project_workflows
-- purpose: list the workflows of a project that is renamed
SELECT id, retired_at IS NOT NULL AS retired FROM workflows WHERE project = %(before)s ORDER BY id

-- name: copy_project
-- purpose: store a project under its new name, to which its rows can refer
INSERT INTO projects SELECT (jsonb_populate_record(p, jsonb_build_object('name', %(after)s::text))).*
  FROM projects p WHERE p.name = %(before)s

-- name: rename_pools
-- purpose: move the pools of a project to its new name
UPDATE pools SET project = %(after)s WHERE project = %(before)s

-- name: rename_workflows
-- purpose: move the workflows of a project to its new name
UPDATE workflows SET project = %(after)s
 WHERE id IN (SELECT id FROM workflows WHERE project = %(before)s ORDER BY id FOR NO KEY UPDATE)

-- name: rename_runs
-- purpose: move queued and running runs of a project to its new name; ended runs keep the name under which they ran
UPDATE runs SET project = %(after)s
 WHERE id IN (SELECT id FROM runs WHERE workflow_id = ANY (%(workflows)s) AND status IN ('queued', 'running')
               ORDER BY workflow_id, partition_key, id FOR UPDATE)

-- name: rename_sources
-- purpose: move the declarations of sources of a project to its new name
UPDATE assets SET source_project = %(after)s
 WHERE id IN (SELECT id FROM assets WHERE source_project = %(before)s ORDER BY id FOR NO KEY UPDATE)

-- name: drop_project
-- purpose: delete the former name of a project
DELETE FROM projects WHERE name = %(before)s

-- name: renamed_to
-- purpose: read the last new name of a project that no longer exists
SELECT a.after ->> 'renamedTo' AS name FROM audit a
 WHERE a.what = 'rename_project' AND a.subject = %(project)s
   AND NOT EXISTS (SELECT FROM projects WHERE name = %(project)s)
 ORDER BY a.at DESC LIMIT 1
