-- breaking
-- Backfills: demands to compute partitions again.

CREATE TABLE backfills (
    id                 uuid PRIMARY KEY,
    project            text NOT NULL,
    asset_id           text NOT NULL,
    status             text NOT NULL
                       CHECK (status IN ('proposed', 'active', 'paused', 'finished', 'canceled', 'denied')),
    requested_by       text,
    requested_at       timestamptz NOT NULL,
    request_key        text UNIQUE,
    selection          jsonb NOT NULL, -- of the partitions of the asset
    upstream           boolean NOT NULL DEFAULT false,
    downstream         boolean NOT NULL DEFAULT false,
    kind               text NOT NULL CHECK (kind IN ('missing', 'failed', 'stale', 'all')),
    batch              integer NOT NULL CHECK (batch > 0),
    concurrency        integer NOT NULL CHECK (concurrency > 0),
    newest_first       boolean NOT NULL,
    not_before         timestamptz,
    during_quiet_hours boolean NOT NULL,
    priority           integer NOT NULL,
    partial            boolean NOT NULL,
    revision           integer NOT NULL DEFAULT 1 CHECK (revision > 0),
    reasons            jsonb, -- of a proposal: what made its partitions stale
    progressed_at      timestamptz, -- when one of its partitions ended last
    ended_at           timestamptz,
    CONSTRAINT backfills_ended_at_iff_ended CHECK ((status IN ('finished', 'canceled', 'denied')) = (ended_at IS NOT NULL))
);
-- What ended costs nothing: evaluations read open backfills only.
CREATE INDEX backfills_open ON backfills (requested_at) WHERE ended_at IS NULL;
CREATE INDEX backfills_ended ON backfills (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX backfills_recent ON backfills (requested_at DESC, id DESC);

-- One row per workflow of a backfill. `rest`: the partitions whose turn has not come; NULL: none.
CREATE TABLE backfill_workflows (
    backfill_id        uuid NOT NULL REFERENCES backfills ON DELETE CASCADE,
    workflow_id        bigint NOT NULL REFERENCES workflows,
    version            integer NOT NULL, -- of the workflow when the backfill was requested
    selection          jsonb NOT NULL,
    rest               jsonb,
    total              integer NOT NULL CHECK (total > 0),
    done               integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    open               boolean NOT NULL DEFAULT true,
    PRIMARY KEY (backfill_id, workflow_id)
);
CREATE INDEX backfill_workflows_open ON backfill_workflows (workflow_id) WHERE open;

-- Partitions that had their turn and are not done. Those that failed or were refused stay, until they are tried again.
CREATE TABLE backfill_partitions (
    backfill_id        uuid NOT NULL,
    workflow_id        bigint NOT NULL,
    partition_key      text NOT NULL,
    state              text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'failed', 'refused')),
    PRIMARY KEY (workflow_id, partition_key, backfill_id),
    FOREIGN KEY (backfill_id, workflow_id) REFERENCES backfill_workflows ON DELETE CASCADE
);
CREATE INDEX backfill_partitions_backfill ON backfill_partitions (backfill_id, state);

-- The open backfills for which a success counts: of the last success of a partition, and of what it published.
ALTER TABLE workflow_partitions ADD COLUMN backfills uuid[];
ALTER TABLE snapshots ADD COLUMN backfills uuid[];

-- A run of a backfill counts as an automatic one: there is at most one of both kinds per partition.
DROP INDEX runs_one_active;
CREATE UNIQUE INDEX runs_one_active ON runs (workflow_id, partition_key)
    WHERE status IN ('queued', 'running') AND trigger_type <> 'manual';
CREATE INDEX runs_backfill ON runs ((trigger ->> 'backfillId'))
    WHERE status IN ('queued', 'running') AND trigger_type = 'backfill';
