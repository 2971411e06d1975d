-- The first schema. Every key carries a partition key ('' = unpartitioned) from the start.
-- Times are the database's own: freshline_now() is clock_timestamp(), unless a test set the transaction's clock.

CREATE FUNCTION freshline_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(current_setting('freshline.now', true), '')::timestamptz, clock_timestamp())
$$;

-- Time-ordered ids (RFC 9562 version 7), also on servers older than 18.
CREATE FUNCTION freshline_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;

-- How long to wait after so many failures: doubling up to a limit, a quarter more or less so that many do not come at once.
CREATE FUNCTION freshline_backoff(failures integer, base_ms bigint, longest_ms bigint) RETURNS interval
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT least(longest_ms, base_ms * 2.0 ^ least(failures, 30)) * (0.75 + 0.5 * random()) * interval '1 millisecond'
$$;

CREATE TABLE installation (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    warehouse_id    uuid NOT NULL DEFAULT gen_random_uuid(),
    epoch           bigint NOT NULL DEFAULT 0,
    epoch_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO installation DEFAULT VALUES;

CREATE TABLE projects (
    name            text PRIMARY KEY,
    code_hash       text NOT NULL,
    applied_at      timestamptz NOT NULL
);

-- How many runs a pool takes at once. A pool that its project no longer declares keeps its limit for runs that name it.
CREATE TABLE pools (
    project         text NOT NULL REFERENCES projects,
    name            text NOT NULL CHECK (name <> ''),
    slots           integer NOT NULL CHECK (slots > 0),
    retired_at      timestamptz,
    PRIMARY KEY (project, name)
);

CREATE TABLE workflows (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug            text NOT NULL UNIQUE,
    project         text NOT NULL REFERENCES projects,
    version         integer NOT NULL CHECK (version > 0),
    automatic       boolean NOT NULL,
    policy          jsonb NOT NULL,
    job_fingerprint text NOT NULL,
    pool            text NOT NULL DEFAULT '', -- '': none
    max_concurrency integer CHECK (max_concurrency > 0),
    created_at      timestamptz NOT NULL,
    applied_at      timestamptz NOT NULL,
    retired_at      timestamptz,
    paused_at       timestamptz,
    paused_until    timestamptz,
    CHECK (paused_until IS NULL OR paused_at IS NOT NULL)
);
CREATE INDEX workflows_project ON workflows (project) WHERE retired_at IS NULL;

CREATE TABLE workflow_versions (
    workflow_id     bigint NOT NULL REFERENCES workflows,
    version         integer NOT NULL CHECK (version > 0),
    fingerprint     text NOT NULL,
    job_fingerprint text NOT NULL,
    code_hash       text,
    needs_spark     boolean NOT NULL,
    definition      jsonb NOT NULL,
    source_file     text,
    applied_at      timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, version)
);

-- An asset with a producer is made by that workflow; one without is a source (declared, or only named by a consumer).
CREATE TABLE assets (
    id              text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$'),
    producer_id     bigint REFERENCES workflows,
    step_id         text,
    declaration     jsonb NOT NULL DEFAULT '{}',
    source_project  text,
    CHECK ((producer_id IS NULL) = (step_id IS NULL))
);
CREATE UNIQUE INDEX assets_case ON assets (lower(id));
CREATE INDEX assets_producer ON assets (producer_id) WHERE producer_id IS NOT NULL;

-- Who consumes what from outside itself; what a workflow produces for its own steps is not an edge (R1.3).
CREATE TABLE edges (
    asset_id        text NOT NULL REFERENCES assets,
    workflow_id     bigint NOT NULL REFERENCES workflows,
    triggers        boolean NOT NULL,
    declaration     jsonb NOT NULL,
    PRIMARY KEY (asset_id, workflow_id)
);
CREATE INDEX edges_workflow ON edges (workflow_id, asset_id);

CREATE TABLE runs (
    id              uuid PRIMARY KEY,
    workflow_id     bigint NOT NULL REFERENCES workflows,
    partition_key   text NOT NULL,
    version         integer NOT NULL,
    project         text NOT NULL,
    code_hash       text,
    needs_spark     boolean NOT NULL,
    status          text NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'canceled')),
    trigger         jsonb NOT NULL,
    trigger_type    text NOT NULL CHECK (trigger_type IN ('auto-materialize', 'manual', 'backfill')),
    cause           text NOT NULL,
    priority        integer NOT NULL,
    urgency         double precision NOT NULL, -- seconds of queued_at + 10 per priority: waiting improves it (R11.8)
    pool            text NOT NULL DEFAULT '',
    slot            integer, -- which slot of the pool it runs in
    lane            integer, -- which of its workflow's maxConcurrency it is
    mixed           boolean NOT NULL DEFAULT false,
    pins            jsonb NOT NULL,
    parameters      jsonb NOT NULL DEFAULT '{}',
    decision_id     uuid,
    request_key     text UNIQUE,
    attempt         integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    crashed         integer[] NOT NULL DEFAULT '{}',  -- attempts whose worker was lost and has not come back
    worker_id       uuid,
    lease_until     timestamptz,
    queued_at       timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz,
    cancel_at       timestamptz,
    cancel_reason   text,
    error           jsonb,
    result          jsonb,
    progress        jsonb,
    FOREIGN KEY (workflow_id, version) REFERENCES workflow_versions,
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status = 'running') <= (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt > 0)),
    CHECK ((status IN ('succeeded', 'failed', 'canceled')) = (finished_at IS NOT NULL)),
    CHECK ((status = 'running' AND pool <> '') <= (slot IS NOT NULL)),
    CHECK ((status = 'failed') <= (error IS NOT NULL)),
    CHECK ((status = 'succeeded') <= (error IS NULL)),
    CHECK (trigger ->> 'type' = trigger_type)
);
-- Promise 2: at most one active automatic run, and at most one running run of any trigger, per workflow partition.
CREATE UNIQUE INDEX runs_one_active ON runs (workflow_id, partition_key)
    WHERE status IN ('queued', 'running') AND trigger_type = 'auto-materialize';
CREATE UNIQUE INDEX runs_one_running ON runs (workflow_id, partition_key) WHERE status = 'running';
-- A slot is held by being written in a running run: ending the run, however it ends, frees it (ADR 0005).
CREATE UNIQUE INDEX runs_slots ON runs (project, pool, slot) WHERE status = 'running' AND slot IS NOT NULL;
CREATE UNIQUE INDEX runs_lanes ON runs (workflow_id, lane) WHERE status = 'running' AND lane IS NOT NULL;
CREATE INDEX runs_active ON runs (workflow_id, partition_key) WHERE status IN ('queued', 'running');
CREATE INDEX runs_queue ON runs (project, pool, urgency, id) WHERE status = 'queued';
CREATE INDEX runs_leases ON runs (lease_until) WHERE status = 'running';
CREATE INDEX runs_history ON runs (workflow_id, partition_key, queued_at DESC);
CREATE INDEX runs_recent ON runs (queued_at DESC, id DESC);

CREATE TABLE run_steps (
    run_id          uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    step_id         text NOT NULL,
    attempt         integer NOT NULL,
    try             integer NOT NULL CHECK (try > 0),
    status          text NOT NULL CHECK (status IN ('running', 'succeeded', 'failed')),
    started_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    outputs         jsonb,
    metrics         jsonb,
    error           jsonb,
    session         uuid,  -- on a Spark Connect server, where it outlives its worker
    PRIMARY KEY (run_id, step_id, attempt, try),
    CHECK ((status = 'running') = (finished_at IS NULL)),
    CHECK ((status = 'succeeded') = (outputs IS NOT NULL)),
    CHECK ((status = 'failed') = (error IS NOT NULL))
);

CREATE TABLE run_logs (
    run_id          uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    line            integer NOT NULL,
    attempt         integer NOT NULL,
    step_id         text NOT NULL,
    at              timestamptz NOT NULL,
    stream          text NOT NULL CHECK (stream IN ('stdout', 'stderr', 'log')),
    text            text NOT NULL,
    PRIMARY KEY (run_id, line)
);
CREATE INDEX run_logs_at ON run_logs (at);

-- One row per workflow partition: what its last success read, and how its failures stand.
CREATE TABLE workflow_partitions (
    workflow_id     bigint NOT NULL REFERENCES workflows,
    partition_key   text NOT NULL,
    vector          jsonb,
    job_fingerprint text,
    succeeded_at    timestamptz,
    success_cause   text,
    mixed           boolean NOT NULL DEFAULT false, -- the vector may be of several generations (ADR 0004)
    cause_repeats   integer NOT NULL DEFAULT 0,
    started_at      timestamptz,
    failures        integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failed_at       timestamptz,
    eligible_at     timestamptz,
    breaker_at      timestamptz,
    probed          jsonb,
    canceled        jsonb,
    avoided         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (workflow_id, partition_key),
    CHECK ((vector IS NULL) = (job_fingerprint IS NULL)),
    CHECK ((failures = 0) <= (eligible_at IS NULL)),
    CHECK ((breaker_at IS NOT NULL) <= (failures > 0))
);

CREATE TABLE snapshots (
    asset_id        text NOT NULL REFERENCES assets,
    partition_key   text NOT NULL,
    sequence        bigint NOT NULL CHECK (sequence > 0),
    data_version    text NOT NULL,
    changed         boolean NOT NULL,
    table_version   bigint,
    -- The version at which its list of directories begins: its own, or an earlier one if it appended to that.
    base_version    bigint,
    location        jsonb,
    schema          jsonb,
    rows            bigint,
    bytes           bigint,
    checks          jsonb,
    difference      jsonb,
    workflow_id     bigint REFERENCES workflows,
    run_id          uuid REFERENCES runs,
    attempt         integer,
    step_id         text,
    produced_at     timestamptz NOT NULL,
    expires_at      timestamptz,
    inputs          jsonb NOT NULL DEFAULT '{}',
    sources         jsonb NOT NULL DEFAULT '{}',
    payload         jsonb,
    event_id        uuid NOT NULL,
    report_key      text,
    report_sequence bigint,
    gone_at         timestamptz,
    removed_at      timestamptz,
    PRIMARY KEY (asset_id, partition_key, sequence),
    CHECK ((run_id IS NULL) = (attempt IS NULL)),
    CHECK ((table_version IS NULL) = (base_version IS NULL)),
    CHECK (base_version <= table_version),
    CHECK (removed_at IS NULL OR gone_at IS NOT NULL)
);
CREATE UNIQUE INDEX snapshots_report_key ON snapshots (asset_id, partition_key, report_key) WHERE report_key IS NOT NULL;
CREATE INDEX snapshots_changed ON snapshots (asset_id, partition_key, sequence) WHERE changed;
CREATE INDEX snapshots_run ON snapshots (run_id) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX snapshots_event ON snapshots (event_id);
CREATE INDEX snapshots_versions ON snapshots (asset_id, partition_key, table_version) WHERE table_version IS NOT NULL;
CREATE INDEX snapshots_gone ON snapshots (gone_at) WHERE gone_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX snapshots_age ON snapshots (produced_at, event_id)
    WHERE NOT changed OR table_version IS NULL OR removed_at IS NOT NULL;

-- The directories of a table that was appended to, oldest first, each with its version. NULL: those of `location` are all.
CREATE FUNCTION freshline_parts(snapshot snapshots) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN snapshot.base_version < snapshot.table_version THEN (
        SELECT jsonb_agg(jsonb_build_array(v.table_version, p.path) ORDER BY v.table_version, p.ordinal)
          FROM (SELECT DISTINCT ON (x.table_version) x.table_version, x.location FROM snapshots x
                 WHERE x.asset_id = snapshot.asset_id AND x.partition_key = snapshot.partition_key
                   AND x.table_version BETWEEN snapshot.base_version AND snapshot.table_version
                 ORDER BY x.table_version, x.sequence) v,
               jsonb_array_elements_text(v.location -> 'paths') WITH ORDINALITY AS p (path, ordinal)) END
$$;

-- Table versions that are not in the Delta log of their table yet.
CREATE TABLE table_commits (
    asset_id        text NOT NULL REFERENCES assets,
    partition_key   text NOT NULL,
    table_version   bigint NOT NULL,
    sequence        bigint NOT NULL,
    tries           integer NOT NULL DEFAULT 0,
    eligible_at     timestamptz NOT NULL,
    trouble         text,
    PRIMARY KEY (asset_id, partition_key, table_version)
);
CREATE INDEX table_commits_eligible ON table_commits (eligible_at);

-- The current snapshot of each asset partition. last_sequence also counts late reports that did not move the head (R3.3).
CREATE TABLE heads (
    asset_id        text NOT NULL REFERENCES assets,
    partition_key   text NOT NULL,
    sequence        bigint NOT NULL,
    last_sequence   bigint NOT NULL,
    data_version    text NOT NULL,
    table_version   bigint,
    produced_at     timestamptz NOT NULL,
    report_sequence bigint,
    PRIMARY KEY (asset_id, partition_key),
    FOREIGN KEY (asset_id, partition_key, sequence) REFERENCES snapshots DEFERRABLE INITIALLY DEFERRED,
    CHECK (last_sequence >= sequence)
);

-- due_at: when it fires next (NULL: not armed). expired_at: the asset is expired (or overdue) since then, until it is produced.
CREATE TABLE timers (
    asset_id        text NOT NULL REFERENCES assets,
    partition_key   text NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('expiry', 'overdue')),
    due_at          timestamptz,
    reason          text CHECK (reason IN ('ttl', 'cadence', 'cron', 'manual', 'max-age')),
    expired_at      timestamptz,
    expired_reason  text CHECK (expired_reason IN ('ttl', 'cadence', 'cron', 'manual', 'max-age')),
    event_id        uuid,
    PRIMARY KEY (asset_id, partition_key, kind),
    CHECK ((due_at IS NULL) = (reason IS NULL)),
    CHECK ((expired_at IS NULL) = (expired_reason IS NULL)),
    CHECK (due_at IS NOT NULL OR expired_at IS NOT NULL)
);
CREATE INDEX timers_due ON timers (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE events (
    id              uuid NOT NULL,
    time            timestamptz NOT NULL,
    position        bigint,
    type            text NOT NULL,
    subject         text NOT NULL,
    data            jsonb NOT NULL,
    PRIMARY KEY (time, id)
) PARTITION BY RANGE (time);
CREATE TABLE events_default PARTITION OF events DEFAULT;
CREATE INDEX events_unstamped ON events (time, id) WHERE position IS NULL;
CREATE INDEX events_position ON events (position) WHERE position IS NOT NULL;
CREATE INDEX events_subject ON events (subject, time DESC);
CREATE SEQUENCE event_positions;

-- Up to which position the event bus has every event. Whoever publishes holds the row, so that no two do it at once.
CREATE TABLE bus_cursor (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    position        bigint NOT NULL DEFAULT 0
);
INSERT INTO bus_cursor DEFAULT VALUES;

-- What has happened and was not looked at yet. Deleted by the absorber in the transaction that notes the considerations.
CREATE TABLE inbox (
    event_id        uuid PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('changed', 'unchanged', 'expired', 'ended', 'touched')),
    asset_id        text REFERENCES assets,
    workflow_id     bigint REFERENCES workflows,
    partition_key   text NOT NULL,
    at              timestamptz NOT NULL,
    CHECK ((kind IN ('changed', 'unchanged', 'expired')) = (asset_id IS NOT NULL)),
    CHECK ((kind IN ('ended', 'touched')) = (workflow_id IS NOT NULL))
);

-- Where and when to look; it carries no truth (R5.4). class: 0 event, 1 timer, 2 sweep.
CREATE TABLE considerations (
    workflow_id     bigint NOT NULL REFERENCES workflows,
    partition_key   text NOT NULL,
    not_before      timestamptz NOT NULL,
    class           smallint NOT NULL CHECK (class IN (0, 1, 2)),
    noted_at        timestamptz NOT NULL,
    hold            text,
    blocker_id      bigint REFERENCES workflows,
    blocks_until    timestamptz,
    priority        integer, -- of who waits for the blocker, its own or that of who waits for it (R11.8)
    looks           integer NOT NULL DEFAULT 0 CHECK (looks >= 0),
    PRIMARY KEY (workflow_id, partition_key),
    CHECK (blocks_until IS NULL OR hold IS NOT NULL),
    CHECK (blocker_id IS NULL OR hold IS NOT NULL),
    CHECK ((blocker_id IS NULL) = (priority IS NULL))
);
CREATE INDEX considerations_due ON considerations (class, not_before);
CREATE INDEX considerations_blocker ON considerations (blocker_id) WHERE blocker_id IS NOT NULL;

CREATE TABLE decisions (
    id              uuid PRIMARY KEY,
    workflow_id     bigint NOT NULL REFERENCES workflows,
    partition_key   text NOT NULL,
    version         integer NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('run', 'hold', 'skip', 'error')),
    reason          text NOT NULL,
    digest          text NOT NULL,
    evidence        jsonb NOT NULL,
    at              timestamptz NOT NULL,
    last_at         timestamptz NOT NULL,
    count           integer NOT NULL DEFAULT 1 CHECK (count > 0),
    run_id          uuid REFERENCES runs,
    CHECK ((outcome = 'run') <= (run_id IS NOT NULL)),
    CHECK (last_at >= at)
);
CREATE INDEX decisions_history ON decisions (workflow_id, partition_key, at DESC, id DESC);
CREATE INDEX decisions_run ON decisions (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX decisions_recent ON decisions (at DESC, id DESC);

CREATE TABLE workers (
    id              uuid PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('materializer', 'worker', 'api')),
    host            text NOT NULL,
    pid             integer NOT NULL,
    project         text,
    code_hash       text,
    started_at      timestamptz NOT NULL,
    seen_at         timestamptz NOT NULL,
    stopped_at      timestamptz,
    info            jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX workers_live ON workers (seen_at) WHERE stopped_at IS NULL;

-- Who may use the HTTP API. Of a token only its SHA-256 is here; the token itself was shown once, when it was made.
CREATE TABLE api_tokens (
    id              uuid PRIMARY KEY,
    name            text NOT NULL CHECK (name <> ''),
    scope           text NOT NULL CHECK (scope IN ('read', 'operate', 'admin')),
    digest          bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL CHECK (expires_at > created_at),
    revoked_at      timestamptz,
    used_at         timestamptz
);
CREATE UNIQUE INDEX api_tokens_name ON api_tokens (name) WHERE revoked_at IS NULL;

-- Every change that somebody made over HTTP, and every change of a token: written in the transaction of the change.
CREATE TABLE audit (
    id              uuid PRIMARY KEY,
    at              timestamptz NOT NULL,
    who             text NOT NULL,
    token_id        uuid,
    what            text NOT NULL,
    subject         text NOT NULL,
    before          jsonb,
    after           jsonb
);
CREATE INDEX audit_recent ON audit (at DESC, id DESC);

-- Who is told about events over HTTP. Up to `position` every event that it asks for was delivered, or is in `deliveries`.
-- The secret signs what is sent and leaves the database for nothing else.
CREATE TABLE webhooks (
    id              uuid PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name <> ''),
    kind            text NOT NULL CHECK (kind IN ('cloudevents', 'openlineage')),
    url             text NOT NULL,
    types           text[] NOT NULL CHECK (cardinality(types) > 0),
    assets          text[] NOT NULL CHECK (cardinality(assets) > 0),
    secret          bytea NOT NULL,
    request_key     text UNIQUE,
    created_at      timestamptz NOT NULL,
    paused_at       timestamptz,
    position        bigint NOT NULL CHECK (position >= 0),
    claim           bigint NOT NULL DEFAULT 0, -- the fencing token: grows with every claim
    claimed_at      timestamptz,
    lease_until     timestamptz,
    failures        integer NOT NULL DEFAULT 0 CHECK (failures >= 0), -- in a row
    eligible_at     timestamptz NOT NULL,
    delivered       bigint NOT NULL DEFAULT 0,
    delivered_at    timestamptz,
    trouble         text,
    CHECK (kind <> 'cloudevents' OR length(secret) BETWEEN 24 AND 64),
    CHECK (lease_until IS NULL OR claimed_at IS NOT NULL),
    CHECK ((failures > 0) = (trouble IS NOT NULL))
);

-- Events that a webhook did not take: to be tried again, or dead after the budget. `since`: when the budget began.
CREATE TABLE deliveries (
    webhook_id      uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    position        bigint NOT NULL,
    event_id        uuid NOT NULL,
    since           timestamptz NOT NULL,
    attempts        integer NOT NULL CHECK (attempts >= 0),
    tried_at        timestamptz NOT NULL,
    eligible_at     timestamptz NOT NULL,
    dead_at         timestamptz,
    trouble         text NOT NULL,
    PRIMARY KEY (webhook_id, position)
);
CREATE INDEX deliveries_waiting ON deliveries (webhook_id, position) WHERE dead_at IS NULL;
CREATE INDEX deliveries_dead ON deliveries (dead_at) WHERE dead_at IS NOT NULL;

-- What is rewritten in place has room for it, so that no index is touched; queues are vacuumed after so many changes and not
-- after a share of a size that is nothing one moment; and logs that only grow long before a fifth of them is new.
ALTER TABLE heads SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE workflow_partitions SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE inbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE considerations SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                                autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 500);
ALTER TABLE timers SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE run_steps SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE run_logs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE decisions SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE snapshots SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE events_default SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
