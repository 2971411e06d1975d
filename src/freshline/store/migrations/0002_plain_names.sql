-- breaking
-- Plain names: columns, indexes and constraints are called by the terms of the field. No row is lost or computed again.
-- Breaking, because processes of 0.1 use the former names; they stop with an error that says so.

-- 0.1 recorded no checksums. Its only migration is 0001_init, in this text.
UPDATE freshline_migrations
   SET checksum = '307d287053b833d8d6a83d9d7e4f1202e722961c103e2bd8b00ceeefdf4ab386'
 WHERE version = 1 AND checksum IS NULL;

ALTER TABLE workflow_partitions RENAME COLUMN vector TO consumed_versions;
ALTER TABLE workflow_partitions RENAME COLUMN probed TO probed_versions;
ALTER TABLE workflow_partitions RENAME COLUMN avoided TO runs_avoided;
ALTER TABLE considerations RENAME COLUMN looks TO evaluations;
ALTER TABLE runs RENAME COLUMN lane TO concurrency_slot;
ALTER INDEX runs_lanes RENAME TO runs_concurrency_slots;

ALTER TABLE deliveries RENAME TO webhook_deliveries;
ALTER INDEX deliveries_waiting RENAME TO webhook_deliveries_waiting;
ALTER INDEX deliveries_dead RENAME TO webhook_deliveries_dead;
ALTER TABLE webhook_deliveries RENAME CONSTRAINT deliveries_pkey TO webhook_deliveries_pkey;
ALTER TABLE webhook_deliveries RENAME CONSTRAINT deliveries_webhook_id_fkey TO webhook_deliveries_webhook_id_fkey;
ALTER TABLE webhook_deliveries RENAME CONSTRAINT deliveries_attempts_check TO webhook_deliveries_attempts_check;

-- The order of the values is the order of urgency: the smallest class of several reasons wins.
CREATE TYPE consideration_class AS ENUM ('event', 'timer', 'sweep');
ALTER TABLE considerations DROP CONSTRAINT considerations_class_check;
ALTER TABLE considerations ALTER COLUMN class TYPE consideration_class
    USING (ARRAY['event', 'timer', 'sweep']::consideration_class[])[class + 1];

-- Constraints on one column keep the name that PostgreSQL gave them, <table>_<column>_check. Those on several get one.
ALTER TABLE considerations RENAME CONSTRAINT considerations_looks_check TO considerations_evaluations_check;
ALTER TABLE considerations RENAME CONSTRAINT considerations_check TO considerations_blocks_until_needs_hold;
ALTER TABLE considerations RENAME CONSTRAINT considerations_check1 TO considerations_blocker_needs_hold;
ALTER TABLE considerations RENAME CONSTRAINT considerations_check2 TO considerations_priority_iff_blocker;
ALTER TABLE workflows RENAME CONSTRAINT workflows_check TO workflows_paused_until_needs_paused_at;
ALTER TABLE assets RENAME CONSTRAINT assets_check TO assets_step_iff_producer;
ALTER TABLE runs RENAME CONSTRAINT runs_check TO runs_lease_iff_running;
ALTER TABLE runs RENAME CONSTRAINT runs_check2 TO runs_finished_at_iff_ended;
ALTER TABLE runs RENAME CONSTRAINT runs_check6 TO runs_trigger_has_trigger_type;
ALTER TABLE run_steps RENAME CONSTRAINT run_steps_check TO run_steps_finished_at_iff_ended;
ALTER TABLE run_steps RENAME CONSTRAINT run_steps_check1 TO run_steps_outputs_iff_succeeded;
ALTER TABLE run_steps RENAME CONSTRAINT run_steps_check2 TO run_steps_error_iff_failed;
ALTER TABLE workflow_partitions RENAME CONSTRAINT workflow_partitions_check TO workflow_partitions_versions_iff_fingerprint;
ALTER TABLE snapshots RENAME CONSTRAINT snapshots_check TO snapshots_attempt_iff_run;
ALTER TABLE snapshots RENAME CONSTRAINT snapshots_check1 TO snapshots_base_version_iff_table_version;
ALTER TABLE snapshots RENAME CONSTRAINT snapshots_check2 TO snapshots_base_version_not_after_table_version;
ALTER TABLE snapshots RENAME CONSTRAINT snapshots_check3 TO snapshots_removed_at_needs_gone_at;
ALTER TABLE heads RENAME CONSTRAINT heads_check TO heads_last_sequence_not_before_sequence;
ALTER TABLE timers RENAME CONSTRAINT timers_check TO timers_reason_iff_due_at;
ALTER TABLE timers RENAME CONSTRAINT timers_check1 TO timers_expired_reason_iff_expired_at;
ALTER TABLE timers RENAME CONSTRAINT timers_check2 TO timers_due_or_expired;
ALTER TABLE inbox RENAME CONSTRAINT inbox_check TO inbox_asset_iff_kind_about_asset;
ALTER TABLE inbox RENAME CONSTRAINT inbox_check1 TO inbox_workflow_iff_kind_about_workflow;
ALTER TABLE decisions RENAME CONSTRAINT decisions_check1 TO decisions_last_at_not_before_at;
ALTER TABLE api_tokens RENAME CONSTRAINT api_tokens_check TO api_tokens_expires_after_creation;
ALTER TABLE webhooks RENAME CONSTRAINT webhooks_check TO webhooks_secret_length;
ALTER TABLE webhooks RENAME CONSTRAINT webhooks_check1 TO webhooks_lease_needs_claimed_at;
ALTER TABLE webhooks RENAME CONSTRAINT webhooks_check2 TO webhooks_trouble_iff_failures;

-- Implications, written as NOT a OR b.
ALTER TABLE runs
    DROP CONSTRAINT runs_check1,
    DROP CONSTRAINT runs_check3,
    DROP CONSTRAINT runs_check4,
    DROP CONSTRAINT runs_check5,
    ADD CONSTRAINT runs_running_has_worker
        CHECK (NOT status = 'running' OR (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt > 0)),
    ADD CONSTRAINT runs_running_in_pool_has_slot CHECK (NOT (status = 'running' AND pool <> '') OR slot IS NOT NULL),
    ADD CONSTRAINT runs_failed_has_error CHECK (NOT status = 'failed' OR error IS NOT NULL),
    ADD CONSTRAINT runs_succeeded_has_no_error CHECK (NOT status = 'succeeded' OR error IS NULL);
ALTER TABLE workflow_partitions
    DROP CONSTRAINT workflow_partitions_check1,
    DROP CONSTRAINT workflow_partitions_check2,
    ADD CONSTRAINT workflow_partitions_cooldown_needs_failures CHECK (NOT failures = 0 OR eligible_at IS NULL),
    ADD CONSTRAINT workflow_partitions_breaker_needs_failures CHECK (NOT breaker_at IS NOT NULL OR failures > 0);
ALTER TABLE decisions
    DROP CONSTRAINT decisions_check,
    ADD CONSTRAINT decisions_run_has_run_id CHECK (NOT outcome = 'run' OR run_id IS NOT NULL);

-- PostgreSQL 18 names NOT NULL constraints after their column, too; older servers have no such names.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT t.relname AS of, c.conname AS former, t.relname || '_' || a.attname || '_not_null' AS plain
          FROM pg_constraint c
          JOIN pg_class t ON t.oid = c.conrelid
          JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
         WHERE c.contype = 'n'
           AND c.conrelid IN ('workflow_partitions'::regclass, 'considerations'::regclass, 'webhook_deliveries'::regclass)
    LOOP
        IF one.former <> one.plain THEN
            EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', one.of, one.former, one.plain);
        END IF;
    END LOOP;
END
$$;
