-- breaking
-- The flood guard: how partitions count, and what proposals list about them.

-- How a held partition counts; NULL: not at all, as in graphs without partitions.
ALTER TABLE considerations ADD COLUMN counted text
    CONSTRAINT considerations_counted_check CHECK (counted IN ('shared', 'own', 'listed', 'joined'));
ALTER TABLE considerations ADD COLUMN staleness jsonb; -- what a proposal has to list about the partition
CREATE INDEX considerations_counted ON considerations (workflow_id, counted) WHERE counted IS NOT NULL;
CREATE INDEX considerations_partitions ON considerations (workflow_id, not_before) WHERE partition_key <> '';
CREATE INDEX considerations_proposed ON considerations (workflow_id, partition_key)
    WHERE hold = 'backfill-proposed' AND counted IS NOT NULL;

-- Automatic runs of partitions that are not the newest: they count for 24 hours.
ALTER TABLE runs ADD COLUMN counted boolean;
CREATE INDEX runs_counted ON runs (workflow_id, queued_at) WHERE counted;

-- Versions of a denied proposal: they cause nothing, beside those that the last success consumed, which ends them.
ALTER TABLE workflow_partitions ADD COLUMN declined jsonb;

-- The partitions of a proposal, and of the backfill that it became: of each, exactly the versions that were shown.
CREATE TABLE proposed_partitions (
    backfill_id        uuid NOT NULL,
    workflow_id        bigint NOT NULL,
    partition_key      text NOT NULL,
    staleness          jsonb NOT NULL,
    PRIMARY KEY (workflow_id, partition_key),
    FOREIGN KEY (backfill_id, workflow_id) REFERENCES backfill_workflows ON DELETE CASCADE
);
CREATE INDEX proposed_partitions_backfill ON proposed_partitions (backfill_id, workflow_id);

-- What is wrong now includes proposals that wait for an approval.
CREATE OR REPLACE FUNCTION freshline_trouble_digest() RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT md5(concat_ws('|', (SELECT i.epoch FROM installation i),
        (SELECT string_agg(concat_ws(',', p.workflow_id, p.failures, p.breaker_at IS NOT NULL), ';' ORDER BY p.workflow_id)
           FROM workflow_partitions p WHERE p.failures > 0),
        (SELECT string_agg(concat_ws(',', w.asset_id, least(w.failures, 10)), ';' ORDER BY w.asset_id)
           FROM watches w WHERE w.failures > 0),
        (SELECT string_agg(t.asset_id, ';' ORDER BY t.asset_id)
           FROM timers t WHERE t.kind = 'overdue' AND t.expired_at IS NOT NULL),
        (SELECT string_agg(concat_ws(',', b.id, b.revision), ';' ORDER BY b.id)
           FROM backfills b WHERE b.ended_at IS NULL AND b.status = 'proposed')))
$$;

ALTER TABLE alert_incidents DROP CONSTRAINT alert_incidents_root_check;
ALTER TABLE alert_incidents ADD CONSTRAINT alert_incidents_root_check CHECK (root ~ '^(workflow|asset|backfill):.');
