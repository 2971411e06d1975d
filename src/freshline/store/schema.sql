CREATE TYPE public.consideration_class AS ENUM (
    'event',
    'timer',
    'sweep'
);

CREATE FUNCTION public.freshline_asset(reference text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT split_part(reference, '@', 1) $$;

CREATE FUNCTION public.freshline_backoff(failures integer, base_ms bigint, longest_ms bigint) RETURNS interval
    LANGUAGE sql PARALLEL SAFE
    AS $$
    SELECT least(longest_ms, base_ms * 2.0 ^ least(failures, 30)) * (0.75 + 0.5 * random()) * interval '1 millisecond'
$$;

CREATE FUNCTION public.freshline_differs(data_version text, column_versions jsonb, consumed jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((data_version IS DISTINCT FROM (consumed ->> 'dataVersion'::text)) AND (NOT COALESCE((((consumed -> 'columns'::text) <> '{}'::jsonb) AND (column_versions @> (consumed -> 'columns'::text))), false)));

CREATE FUNCTION public.freshline_digest(partition_key text, data_version text) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT hashtextextended(partition_key || chr(31) || data_version, 0)::numeric $$;

CREATE TABLE public.decisions (
    id uuid NOT NULL,
    workflow_id bigint NOT NULL,
    partition_key text NOT NULL,
    version integer NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    digest text NOT NULL,
    evidence jsonb NOT NULL,
    at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    count integer DEFAULT 1 NOT NULL,
    run_id uuid,
    CONSTRAINT decisions_count_check CHECK ((count > 0)),
    CONSTRAINT decisions_last_at_not_before_at CHECK ((last_at >= at)),
    CONSTRAINT decisions_outcome_check CHECK ((outcome = ANY (ARRAY['run'::text, 'hold'::text, 'skip'::text, 'error'::text]))),
    CONSTRAINT decisions_run_has_run_id CHECK (((NOT (outcome = 'run'::text)) OR (run_id IS NOT NULL)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE FUNCTION public.freshline_evidence(decision public.decisions) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN decision.evidence ->> 'cause' IS DISTINCT FROM 'definition-changed' THEN decision.evidence ELSE (
        SELECT decision.evidence
               || CASE WHEN count(*) > 0 THEN jsonb_build_object('changes', jsonb_agg(f.change ORDER BY f.change)) ELSE '{}' END
          FROM (SELECT DISTINCT c.change
                  FROM workflow_versions v, jsonb_array_elements_text(v.changes) AS c (change)
                 WHERE v.workflow_id = decision.workflow_id AND v.version <= decision.version
                   AND v.version > coalesce((SELECT r.version FROM runs r
                                              WHERE r.workflow_id = decision.workflow_id AND r.status = 'succeeded'
                                                AND r.finished_at <= decision.at
                                              ORDER BY r.queued_at DESC, r.id DESC LIMIT 1), decision.version - 1)
                 ORDER BY c.change LIMIT 20) f) END
$$;

CREATE FUNCTION public.freshline_id() RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;

CREATE FUNCTION public.freshline_key(reference text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE position('@' IN reference) WHEN 0 THEN '' ELSE substr(reference, position('@' IN reference) + 1) END $$;

CREATE FUNCTION public.freshline_mixed(origins jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (
        SELECT FROM jsonb_each_text(origins) m
          LEFT JOIN heads h ON (h.asset_id, h.partition_key) = (freshline_asset(m.key), freshline_key(m.key))
          LEFT JOIN snapshots s ON (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
         WHERE s.mixed IS DISTINCT FROM false OR s.data_version <> m.value)
$$;

CREATE FUNCTION public.freshline_next_look(every_ms bigint, pause_ms bigint, took_ms bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN pause_ms = 0 THEN 0
                ELSE greatest(least(every_ms, coalesce(pause_ms, every_ms)), 9 * took_ms) END
$$;

CREATE FUNCTION public.freshline_now() RETURNS timestamp with time zone
    LANGUAGE sql PARALLEL SAFE
    AS $$
    SELECT coalesce(nullif(current_setting('freshline.now', true), '')::timestamptz, clock_timestamp())
$$;

CREATE FUNCTION public.freshline_older_code(made jsonb, producer bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT jsonb_agg(c.part)
      FROM jsonb_array_elements(made) AS c (part)
      JOIN workflows w ON w.id = producer
      LEFT JOIN workflow_versions v ON (v.workflow_id, v.version) = ((c.part ->> 'workflow')::bigint, (c.part ->> 'workflowVersion')::integer)
      LEFT JOIN workflow_versions f
             ON (f.workflow_id, f.version) = ((c.part ->> 'forWorkflow')::bigint, (c.part ->> 'forVersion')::integer)
     WHERE v.job_fingerprint IS DISTINCT FROM w.job_fingerprint AND f.job_fingerprint IS DISTINCT FROM w.job_fingerprint
$$;

CREATE TABLE public.snapshots (
    asset_id text NOT NULL,
    partition_key text NOT NULL,
    sequence bigint NOT NULL,
    data_version text NOT NULL,
    changed boolean NOT NULL,
    table_version bigint,
    base_version bigint,
    location jsonb,
    schema jsonb,
    rows bigint,
    bytes bigint,
    checks jsonb,
    difference jsonb,
    workflow_id bigint,
    run_id uuid,
    attempt integer,
    step_id text,
    produced_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    inputs jsonb DEFAULT '{}'::jsonb NOT NULL,
    sources jsonb DEFAULT '{}'::jsonb NOT NULL,
    payload jsonb,
    event_id uuid NOT NULL,
    report_key text,
    report_sequence bigint,
    gone_at timestamp with time zone,
    removed_at timestamp with time zone,
    mixed boolean DEFAULT false NOT NULL,
    mixed_from jsonb DEFAULT '{}'::jsonb NOT NULL,
    delivery bigint,
    origin timestamp with time zone,
    change bigint,
    backfills uuid[],
    retired boolean DEFAULT false NOT NULL,
    code jsonb,
    column_versions jsonb,
    CONSTRAINT snapshots_attempt_iff_run CHECK (((run_id IS NULL) = (attempt IS NULL))),
    CONSTRAINT snapshots_base_version_iff_table_version CHECK (((table_version IS NULL) = (base_version IS NULL))),
    CONSTRAINT snapshots_base_version_not_after_table_version CHECK ((base_version <= table_version)),
    CONSTRAINT snapshots_delivery_check CHECK ((delivery > 0)),
    CONSTRAINT snapshots_removed_at_needs_gone_at CHECK (((removed_at IS NULL) OR (gone_at IS NOT NULL))),
    CONSTRAINT snapshots_sequence_check CHECK ((sequence > 0))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE FUNCTION public.freshline_parts(snapshot public.snapshots) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN snapshot.base_version < snapshot.table_version THEN (
        SELECT jsonb_agg(jsonb_build_array(v.table_version, p.path) ORDER BY v.table_version, p.ordinal)
          FROM (SELECT DISTINCT ON (x.table_version) x.table_version, x.location FROM snapshots x
                 WHERE x.asset_id = snapshot.asset_id AND x.partition_key = snapshot.partition_key
                   AND x.table_version BETWEEN snapshot.base_version AND snapshot.table_version
                 ORDER BY x.table_version, x.sequence) v,
               jsonb_array_elements_text(v.location -> 'paths') WITH ORDINALITY AS p (path, ordinal)) END
$$;

CREATE FUNCTION public.freshline_skipped(asset text, partition text, up_to bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN up_to IS NOT NULL THEN coalesce((
        SELECT jsonb_agg(n.number ORDER BY n.number)
          FROM deliveries d, jsonb_array_elements(d.skipped) AS n (number)
         WHERE d.asset_id = asset AND d.partition_key = partition AND d.skipped <> '[]' AND d.first_number <= up_to
           AND n.number::bigint <= up_to), '[]') END
$$;

CREATE FUNCTION public.freshline_trouble_digest() RETURNS text
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

CREATE TABLE public.alert_evaluation (
    one boolean DEFAULT true NOT NULL,
    digest text DEFAULT ''::text NOT NULL,
    evaluated_at timestamp with time zone,
    next_at timestamp with time zone,
    CONSTRAINT alert_evaluation_one_check CHECK (one)
);

CREATE TABLE public.alert_incidents (
    id uuid NOT NULL,
    rule_id uuid NOT NULL,
    root text NOT NULL,
    kinds text[] NOT NULL,
    members text[] NOT NULL,
    assets text[] NOT NULL,
    affected integer NOT NULL,
    run_id uuid,
    error text,
    opened_at timestamp with time zone NOT NULL,
    recovered_at timestamp with time zone,
    closed_at timestamp with time zone,
    closing text,
    alerted_at timestamp with time zone,
    cleared_at timestamp with time zone,
    done_at timestamp with time zone,
    CONSTRAINT alert_incidents_cleared_after_alerted CHECK (((cleared_at IS NULL) OR (alerted_at IS NOT NULL))),
    CONSTRAINT alert_incidents_closing_check CHECK ((closing = ANY (ARRAY['recovered'::text, 'removed'::text, 'unmatched'::text]))),
    CONSTRAINT alert_incidents_closing_iff_closed_at CHECK (((closing IS NULL) = (closed_at IS NULL))),
    CONSTRAINT alert_incidents_done_after_closed CHECK (((done_at IS NULL) OR (closed_at IS NOT NULL))),
    CONSTRAINT alert_incidents_root_check CHECK ((root ~ '^(workflow|asset|backfill):.'::text))
);

CREATE TABLE public.alert_messages (
    number bigint NOT NULL,
    rule_id uuid NOT NULL,
    kind text NOT NULL,
    incident_ids uuid[] NOT NULL,
    target integer NOT NULL,
    title text,
    created_at timestamp with time zone NOT NULL,
    eligible_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claim bigint DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone,
    sent_at timestamp with time zone,
    dead_at timestamp with time zone,
    trouble text,
    CONSTRAINT alert_messages_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT alert_messages_incident_ids_check CHECK ((cardinality(incident_ids) > 0)),
    CONSTRAINT alert_messages_kind_check CHECK ((kind = ANY (ARRAY['alert'::text, 'clear'::text, 'summary'::text]))),
    CONSTRAINT alert_messages_sent_or_dead CHECK (((sent_at IS NULL) OR (dead_at IS NULL))),
    CONSTRAINT alert_messages_target_check CHECK ((target >= 0))
);

ALTER TABLE public.alert_messages ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.alert_messages_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.alert_rules (
    id uuid NOT NULL,
    name text NOT NULL,
    project text,
    policy jsonb NOT NULL,
    targets jsonb NOT NULL,
    shown text[] NOT NULL,
    request_key text,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    paused_at timestamp with time zone,
    digested_at timestamp with time zone NOT NULL,
    CONSTRAINT alert_rules_name_check CHECK ((name <> ''::text)),
    CONSTRAINT alert_rules_targets_shown CHECK (((cardinality(shown) > 0) AND (jsonb_array_length(targets) = cardinality(shown))))
);

CREATE TABLE public.api_tokens (
    id uuid NOT NULL,
    name text NOT NULL,
    scope text NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    used_at timestamp with time zone,
    data boolean DEFAULT false NOT NULL,
    CONSTRAINT api_tokens_digest_check CHECK ((length(digest) = 32)),
    CONSTRAINT api_tokens_expires_after_creation CHECK ((expires_at > created_at)),
    CONSTRAINT api_tokens_name_check CHECK ((name <> ''::text)),
    CONSTRAINT api_tokens_scope_check CHECK ((scope = ANY (ARRAY['read'::text, 'operate'::text, 'admin'::text])))
);

CREATE TABLE public.asset_digests (
    asset_id text NOT NULL,
    change bigint NOT NULL,
    keys integer NOT NULL,
    digest numeric NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    retired_keys integer DEFAULT 0 NOT NULL,
    retired_digest numeric DEFAULT 0 NOT NULL,
    CONSTRAINT asset_digests_change_check CHECK ((change > 0)),
    CONSTRAINT asset_digests_keys_check CHECK ((keys >= 0)),
    CONSTRAINT asset_digests_retired_keys_check CHECK ((retired_keys >= 0))
)
WITH (fillfactor='80');

CREATE TABLE public.assets (
    id text NOT NULL,
    producer_id bigint,
    step_id text,
    declaration jsonb DEFAULT '{}'::jsonb NOT NULL,
    source_project text,
    unused_since timestamp with time zone,
    partitioning jsonb,
    CONSTRAINT assets_id_check CHECK ((id ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$'::text)),
    CONSTRAINT assets_step_iff_producer CHECK (((producer_id IS NULL) = (step_id IS NULL)))
);

CREATE TABLE public.audit (
    id uuid NOT NULL,
    at timestamp with time zone NOT NULL,
    who text NOT NULL,
    token_id uuid,
    what text NOT NULL,
    subject text NOT NULL,
    before jsonb,
    after jsonb
);

CREATE TABLE public.backfill_partitions (
    backfill_id uuid NOT NULL,
    workflow_id bigint NOT NULL,
    partition_key text NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    CONSTRAINT backfill_partitions_state_check CHECK ((state = ANY (ARRAY['open'::text, 'done'::text, 'failed'::text, 'refused'::text])))
);

CREATE TABLE public.backfill_workflows (
    backfill_id uuid NOT NULL,
    workflow_id bigint NOT NULL,
    version integer NOT NULL,
    selection jsonb NOT NULL,
    rest jsonb,
    total integer NOT NULL,
    done integer DEFAULT 0 NOT NULL,
    open boolean DEFAULT true NOT NULL,
    CONSTRAINT backfill_workflows_done_check CHECK ((done >= 0)),
    CONSTRAINT backfill_workflows_total_check CHECK ((total > 0))
);

CREATE TABLE public.backfills (
    id uuid NOT NULL,
    project text NOT NULL,
    asset_id text NOT NULL,
    status text NOT NULL,
    requested_by text,
    requested_at timestamp with time zone NOT NULL,
    request_key text,
    selection jsonb NOT NULL,
    upstream boolean DEFAULT false NOT NULL,
    downstream boolean DEFAULT false NOT NULL,
    kind text NOT NULL,
    batch integer NOT NULL,
    concurrency integer NOT NULL,
    newest_first boolean NOT NULL,
    not_before timestamp with time zone,
    during_quiet_hours boolean NOT NULL,
    priority integer NOT NULL,
    partial boolean NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    reasons jsonb,
    progressed_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT backfills_batch_check CHECK ((batch > 0)),
    CONSTRAINT backfills_concurrency_check CHECK ((concurrency > 0)),
    CONSTRAINT backfills_ended_at_iff_ended CHECK (((status = ANY (ARRAY['finished'::text, 'canceled'::text, 'denied'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT backfills_kind_check CHECK ((kind = ANY (ARRAY['missing'::text, 'failed'::text, 'stale'::text, 'all'::text]))),
    CONSTRAINT backfills_revision_check CHECK ((revision > 0)),
    CONSTRAINT backfills_status_check CHECK ((status = ANY (ARRAY['proposed'::text, 'active'::text, 'paused'::text, 'finished'::text, 'canceled'::text, 'denied'::text])))
);

CREATE TABLE public.bus_cursor (
    one boolean DEFAULT true NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    CONSTRAINT bus_cursor_one_check CHECK (one)
);

CREATE TABLE public.considerations (
    workflow_id bigint NOT NULL,
    partition_key text NOT NULL,
    not_before timestamp with time zone NOT NULL,
    class public.consideration_class NOT NULL,
    noted_at timestamp with time zone NOT NULL,
    hold text,
    blocker_id bigint,
    blocks_until timestamp with time zone,
    priority integer,
    evaluations integer DEFAULT 0 NOT NULL,
    waited_ms bigint DEFAULT 0 NOT NULL,
    evaluated_at timestamp with time zone,
    next_at timestamp with time zone,
    origin timestamp with time zone,
    blocker_key text,
    counted text,
    staleness jsonb,
    keys_left integer,
    expanded_to text,
    again_at timestamp with time zone,
    CONSTRAINT considerations_again_needs_expansion CHECK (((again_at IS NULL) OR (expanded_to IS NOT NULL))),
    CONSTRAINT considerations_blocker_key_iff_blocker CHECK (((blocker_id IS NULL) = (blocker_key IS NULL))),
    CONSTRAINT considerations_blocker_needs_hold CHECK (((blocker_id IS NULL) OR (hold IS NOT NULL))),
    CONSTRAINT considerations_blocks_until_needs_hold CHECK (((blocks_until IS NULL) OR (hold IS NOT NULL))),
    CONSTRAINT considerations_counted_check CHECK ((counted = ANY (ARRAY['shared'::text, 'own'::text, 'listed'::text, 'joined'::text]))),
    CONSTRAINT considerations_evaluations_check CHECK ((evaluations >= 0)),
    CONSTRAINT considerations_expansion_needs_note CHECK (((partition_key = ''::text) OR ((keys_left IS NULL) AND (expanded_to IS NULL) AND (again_at IS NULL)))),
    CONSTRAINT considerations_keys_left_check CHECK ((keys_left >= 0)),
    CONSTRAINT considerations_priority_iff_blocker CHECK (((blocker_id IS NULL) = (priority IS NULL))),
    CONSTRAINT considerations_waited_ms_check CHECK ((waited_ms >= 0))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='500');

CREATE TABLE public.deliveries (
    asset_id text NOT NULL,
    partition_key text DEFAULT ''::text NOT NULL,
    first_number bigint NOT NULL,
    last_number bigint NOT NULL,
    items jsonb NOT NULL,
    keys text[] DEFAULT '{}'::text[] NOT NULL,
    skipped jsonb GENERATED ALWAYS AS (jsonb_path_query_array(items, '$[*]?(exists (@."skipped"))."number"'::jsonpath)) STORED NOT NULL,
    CONSTRAINT deliveries_at_most_1000_per_row CHECK (((last_number - first_number) < 1000)),
    CONSTRAINT deliveries_first_number_check CHECK ((first_number > 0)),
    CONSTRAINT deliveries_one_item_per_number CHECK ((jsonb_array_length(items) = ((last_number - first_number) + 1)))
);

CREATE TABLE public.edges (
    asset_id text NOT NULL,
    workflow_id bigint NOT NULL,
    triggers boolean NOT NULL,
    declaration jsonb NOT NULL,
    partitions jsonb,
    mapped boolean DEFAULT false NOT NULL,
    columns text[]
);

CREATE SEQUENCE public.event_positions
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE public.events (
    id uuid NOT NULL,
    "time" timestamp with time zone NOT NULL,
    "position" bigint,
    type text NOT NULL,
    subject text NOT NULL,
    data jsonb NOT NULL
)
PARTITION BY RANGE ("time");

CREATE TABLE public.events_default (
    id uuid CONSTRAINT events_id_not_null NOT NULL,
    "time" timestamp with time zone CONSTRAINT events_time_not_null NOT NULL,
    "position" bigint,
    type text CONSTRAINT events_type_not_null NOT NULL,
    subject text CONSTRAINT events_subject_not_null NOT NULL,
    data jsonb CONSTRAINT events_data_not_null NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE TABLE public.freshline_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    checksum text,
    CONSTRAINT freshline_migrations_version_check CHECK ((version > 0))
);

CREATE TABLE public.heads (
    asset_id text NOT NULL,
    partition_key text NOT NULL,
    sequence bigint NOT NULL,
    last_sequence bigint NOT NULL,
    data_version text NOT NULL,
    table_version bigint,
    produced_at timestamp with time zone NOT NULL,
    report_sequence bigint,
    retired_at timestamp with time zone,
    column_versions jsonb,
    CONSTRAINT heads_last_sequence_not_before_sequence CHECK ((last_sequence >= sequence))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05');

CREATE TABLE public.inbox (
    event_id uuid NOT NULL,
    kind text NOT NULL,
    asset_id text,
    workflow_id bigint,
    partition_key text NOT NULL,
    at timestamp with time zone NOT NULL,
    since timestamp with time zone,
    CONSTRAINT inbox_asset_iff_kind_about_asset CHECK (((kind = ANY (ARRAY['changed'::text, 'unchanged'::text, 'expired'::text, 'arrived'::text, 'retired'::text])) = (asset_id IS NOT NULL))),
    CONSTRAINT inbox_kind_check CHECK ((kind = ANY (ARRAY['changed'::text, 'unchanged'::text, 'expired'::text, 'ended'::text, 'touched'::text, 'arrived'::text, 'retired'::text]))),
    CONSTRAINT inbox_since_iff_arrived CHECK (
CASE kind
    WHEN 'retired'::text THEN ((since IS NULL) OR (partition_key = ''::text))
    ELSE ((kind = 'arrived'::text) = (since IS NOT NULL))
END),
    CONSTRAINT inbox_workflow_iff_kind_about_workflow CHECK (((kind = ANY (ARRAY['ended'::text, 'touched'::text])) = (workflow_id IS NOT NULL)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');

CREATE TABLE public.installation (
    one boolean DEFAULT true NOT NULL,
    warehouse_id uuid DEFAULT gen_random_uuid() NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    epoch_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT installation_one_check CHECK (one)
);

CREATE TABLE public.partition_keys (
    asset_id text NOT NULL,
    partition_key text NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    CONSTRAINT partition_keys_partition_key_check CHECK ((partition_key <> ''::text))
);

CREATE TABLE public.pools (
    project text NOT NULL,
    name text NOT NULL,
    slots integer NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT pools_name_check CHECK ((name <> ''::text)),
    CONSTRAINT pools_slots_check CHECK ((slots > 0))
);

CREATE TABLE public.projects (
    name text NOT NULL,
    code_hash text NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    code_files jsonb DEFAULT '{}'::jsonb NOT NULL
);

CREATE TABLE public.proposed_partitions (
    backfill_id uuid NOT NULL,
    workflow_id bigint NOT NULL,
    partition_key text NOT NULL,
    staleness jsonb NOT NULL
);

CREATE TABLE public.report_groups (
    id uuid NOT NULL,
    members text[] NOT NULL,
    reported_at timestamp with time zone NOT NULL,
    CONSTRAINT report_groups_members CHECK ((cardinality(members) > 1))
);

CREATE TABLE public.run_logs (
    run_id uuid NOT NULL,
    line integer NOT NULL,
    attempt integer NOT NULL,
    step_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    stream text NOT NULL,
    text text NOT NULL,
    CONSTRAINT run_logs_stream_check CHECK ((stream = ANY (ARRAY['stdout'::text, 'stderr'::text, 'log'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE TABLE public.run_steps (
    run_id uuid NOT NULL,
    step_id text NOT NULL,
    attempt integer NOT NULL,
    try integer NOT NULL,
    status text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    outputs jsonb,
    metrics jsonb,
    error jsonb,
    session uuid,
    CONSTRAINT run_steps_error_iff_failed CHECK (((status = 'failed'::text) = (error IS NOT NULL))),
    CONSTRAINT run_steps_finished_at_iff_ended CHECK (((status = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT run_steps_outputs_iff_succeeded CHECK (((status = 'succeeded'::text) = (outputs IS NOT NULL))),
    CONSTRAINT run_steps_status_check CHECK ((status = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text, 'lost'::text]))),
    CONSTRAINT run_steps_try_check CHECK ((try > 0))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE TABLE public.runs (
    id uuid NOT NULL,
    workflow_id bigint NOT NULL,
    partition_key text NOT NULL,
    version integer NOT NULL,
    project text NOT NULL,
    code_hash text,
    needs_spark boolean NOT NULL,
    status text NOT NULL,
    trigger jsonb NOT NULL,
    trigger_type text NOT NULL,
    cause text NOT NULL,
    priority integer NOT NULL,
    urgency double precision NOT NULL,
    pool text DEFAULT ''::text NOT NULL,
    slot integer,
    concurrency_slot integer,
    mixed boolean DEFAULT false NOT NULL,
    pins jsonb NOT NULL,
    parameters jsonb DEFAULT '{}'::jsonb NOT NULL,
    decision_id uuid,
    request_key text,
    attempt integer DEFAULT 0 NOT NULL,
    crashed integer[] DEFAULT '{}'::integer[] NOT NULL,
    worker_id uuid,
    lease_until timestamp with time zone,
    queued_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    cancel_at timestamp with time zone,
    cancel_reason text,
    error jsonb,
    result jsonb,
    progress jsonb,
    quiet tstzrange,
    round jsonb DEFAULT '{}'::jsonb NOT NULL,
    mixed_upstream boolean DEFAULT false NOT NULL,
    epoch bigint,
    origin timestamp with time zone,
    counted boolean,
    batch_id uuid,
    batch_size integer,
    batch_most integer,
    not_before timestamp with time zone,
    CONSTRAINT runs_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT runs_batch_id_iff_batch_size CHECK (((batch_id IS NULL) = (batch_size IS NULL))),
    CONSTRAINT runs_batch_most_check CHECK ((batch_most > 0)),
    CONSTRAINT runs_batch_size_check CHECK ((batch_size > 1)),
    CONSTRAINT runs_failed_has_error CHECK (((NOT (status = 'failed'::text)) OR (error IS NOT NULL))),
    CONSTRAINT runs_finished_at_iff_ended CHECK (((status = ANY (ARRAY['succeeded'::text, 'failed'::text, 'canceled'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT runs_lease_iff_running CHECK (((status = 'running'::text) = (lease_until IS NOT NULL))),
    CONSTRAINT runs_queued_has_no_batch CHECK (((NOT (status = 'queued'::text)) OR (batch_id IS NULL))),
    CONSTRAINT runs_running_has_worker CHECK (((NOT (status = 'running'::text)) OR ((worker_id IS NOT NULL) AND (started_at IS NOT NULL) AND (attempt > 0)))),
    CONSTRAINT runs_running_in_pool_has_slot CHECK (((NOT ((status = 'running'::text) AND (pool <> ''::text) AND ((batch_id IS NULL) OR (batch_id = id)))) OR (slot IS NOT NULL))),
    CONSTRAINT runs_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text]))),
    CONSTRAINT runs_succeeded_has_no_error CHECK (((NOT (status = 'succeeded'::text)) OR (error IS NULL))),
    CONSTRAINT runs_trigger_has_trigger_type CHECK (((trigger ->> 'type'::text) = trigger_type)),
    CONSTRAINT runs_trigger_type_check CHECK ((trigger_type = ANY (ARRAY['auto-materialize'::text, 'manual'::text, 'backfill'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE TABLE public.sweep_cursor (
    one boolean DEFAULT true NOT NULL,
    workflow_id bigint,
    partition_key text,
    CONSTRAINT sweep_cursor_one_check CHECK (one)
);

CREATE TABLE public.table_commits (
    asset_id text NOT NULL,
    partition_key text NOT NULL,
    table_version bigint NOT NULL,
    sequence bigint NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    eligible_at timestamp with time zone NOT NULL,
    trouble text
);

CREATE TABLE public.timers (
    asset_id text NOT NULL,
    partition_key text NOT NULL,
    kind text NOT NULL,
    due_at timestamp with time zone,
    reason text,
    expired_at timestamp with time zone,
    expired_reason text,
    event_id uuid,
    CONSTRAINT timers_due_or_expired CHECK (((due_at IS NOT NULL) OR (expired_at IS NOT NULL))),
    CONSTRAINT timers_expired_reason_check CHECK ((expired_reason = ANY (ARRAY['ttl'::text, 'cadence'::text, 'cron'::text, 'manual'::text, 'max-age'::text]))),
    CONSTRAINT timers_expired_reason_iff_expired_at CHECK (((expired_at IS NULL) = (expired_reason IS NULL))),
    CONSTRAINT timers_kind_check CHECK ((kind = ANY (ARRAY['expiry'::text, 'overdue'::text, 'next-key'::text, 'retire'::text]))),
    CONSTRAINT timers_reason_check CHECK ((reason = ANY (ARRAY['ttl'::text, 'cadence'::text, 'cron'::text, 'manual'::text, 'max-age'::text, 'next-key'::text, 'retire'::text]))),
    CONSTRAINT timers_reason_iff_due_at CHECK (((due_at IS NULL) = (reason IS NULL)))
)
WITH (autovacuum_vacuum_scale_factor='0.05');

CREATE TABLE public.watched_files (
    asset_id text NOT NULL,
    path_key uuid NOT NULL,
    path text NOT NULL,
    size bigint NOT NULL,
    version text NOT NULL,
    identity bigint NOT NULL,
    state text NOT NULL,
    was_size bigint,
    was_version text,
    seen_at timestamp with time zone NOT NULL,
    revision bigint NOT NULL,
    CONSTRAINT watched_files_state_is_known CHECK ((state = ANY (ARRAY['delivered'::text, 'ignored'::text, 'changed'::text])))
);

CREATE TABLE public.watches (
    asset_id text NOT NULL,
    kind text NOT NULL,
    mode text NOT NULL,
    spec jsonb NOT NULL,
    every_ms bigint NOT NULL,
    timeout_ms bigint NOT NULL,
    next_at timestamp with time zone NOT NULL,
    claim bigint DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone,
    "position" jsonb,
    revision bigint DEFAULT 0 NOT NULL,
    looked_at timestamp with time zone,
    summary text,
    conflicts jsonb DEFAULT '[]'::jsonb NOT NULL,
    reported_at timestamp with time zone,
    reported bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    failing_since timestamp with time zone,
    error text,
    breaker_at timestamp with time zone,
    held_by uuid,
    CONSTRAINT watches_breaker_needs_failures CHECK (((breaker_at IS NULL) OR (failures > 0))),
    CONSTRAINT watches_failing_has_error CHECK (((failures > 0) = (error IS NOT NULL))),
    CONSTRAINT watches_mode_is_known CHECK ((mode = ANY (ARRAY['snapshot'::text, 'append'::text])))
);

CREATE TABLE public.webhook_deliveries (
    webhook_id uuid NOT NULL,
    "position" bigint NOT NULL,
    event_id uuid NOT NULL,
    since timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    tried_at timestamp with time zone NOT NULL,
    eligible_at timestamp with time zone NOT NULL,
    dead_at timestamp with time zone,
    trouble text NOT NULL,
    CONSTRAINT webhook_deliveries_attempts_check CHECK ((attempts >= 0))
);

CREATE TABLE public.webhooks (
    id uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    url text NOT NULL,
    types text[] NOT NULL,
    assets text[] NOT NULL,
    secret bytea NOT NULL,
    request_key text,
    created_at timestamp with time zone NOT NULL,
    paused_at timestamp with time zone,
    "position" bigint NOT NULL,
    claim bigint DEFAULT 0 NOT NULL,
    claimed_at timestamp with time zone,
    lease_until timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    eligible_at timestamp with time zone NOT NULL,
    delivered bigint DEFAULT 0 NOT NULL,
    delivered_at timestamp with time zone,
    trouble text,
    CONSTRAINT webhooks_assets_check CHECK ((cardinality(assets) > 0)),
    CONSTRAINT webhooks_failures_check CHECK ((failures >= 0)),
    CONSTRAINT webhooks_kind_check CHECK ((kind = ANY (ARRAY['cloudevents'::text, 'openlineage'::text]))),
    CONSTRAINT webhooks_lease_needs_claimed_at CHECK (((lease_until IS NULL) OR (claimed_at IS NOT NULL))),
    CONSTRAINT webhooks_name_check CHECK ((name <> ''::text)),
    CONSTRAINT webhooks_position_check CHECK (("position" >= 0)),
    CONSTRAINT webhooks_secret_length CHECK (((kind <> 'cloudevents'::text) OR ((length(secret) >= 24) AND (length(secret) <= 64)))),
    CONSTRAINT webhooks_trouble_iff_failures CHECK (((failures > 0) = (trouble IS NOT NULL))),
    CONSTRAINT webhooks_types_check CHECK ((cardinality(types) > 0))
);

CREATE TABLE public.workers (
    id uuid NOT NULL,
    kind text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    project text,
    code_hash text,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    stopped_at timestamp with time zone,
    info jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT workers_kind_check CHECK ((kind = ANY (ARRAY['materializer'::text, 'worker'::text, 'api'::text])))
);

CREATE TABLE public.workflow_partitions (
    workflow_id bigint NOT NULL,
    partition_key text NOT NULL,
    consumed_versions jsonb,
    job_fingerprint text,
    succeeded_at timestamp with time zone,
    success_cause text,
    mixed boolean DEFAULT false NOT NULL,
    cause_repeats integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone,
    failures integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    eligible_at timestamp with time zone,
    breaker_at timestamp with time zone,
    probed_versions jsonb,
    canceled jsonb,
    runs_avoided bigint DEFAULT 0 NOT NULL,
    accepted jsonb DEFAULT '{}'::jsonb NOT NULL,
    waited_ms bigint DEFAULT 0 NOT NULL,
    round jsonb DEFAULT '{}'::jsonb NOT NULL,
    epoch bigint,
    backfills uuid[],
    declined jsonb,
    CONSTRAINT workflow_partitions_breaker_needs_failures CHECK (((NOT (breaker_at IS NOT NULL)) OR (failures > 0))),
    CONSTRAINT workflow_partitions_cooldown_needs_failures CHECK (((NOT (failures = 0)) OR (eligible_at IS NULL))),
    CONSTRAINT workflow_partitions_failures_check CHECK ((failures >= 0)),
    CONSTRAINT workflow_partitions_versions_need_fingerprint CHECK (((consumed_versions IS NULL) OR (job_fingerprint IS NOT NULL))),
    CONSTRAINT workflow_partitions_waited_ms_check CHECK ((waited_ms >= 0))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05');

CREATE TABLE public.workflow_versions (
    workflow_id bigint NOT NULL,
    version integer NOT NULL,
    fingerprint text NOT NULL,
    job_fingerprint text NOT NULL,
    code_hash text,
    needs_spark boolean NOT NULL,
    definition jsonb NOT NULL,
    source_file text,
    applied_at timestamp with time zone NOT NULL,
    changes jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT workflow_versions_version_check CHECK ((version > 0))
);

CREATE TABLE public.workflows (
    id bigint NOT NULL,
    slug text NOT NULL,
    project text NOT NULL,
    version integer NOT NULL,
    automatic boolean NOT NULL,
    policy jsonb NOT NULL,
    job_fingerprint text NOT NULL,
    pool text DEFAULT ''::text NOT NULL,
    max_concurrency integer,
    created_at timestamp with time zone NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    retired_at timestamp with time zone,
    paused_at timestamp with time zone,
    paused_until timestamp with time zone,
    reshaped_epoch bigint DEFAULT 0 NOT NULL,
    CONSTRAINT workflows_max_concurrency_check CHECK ((max_concurrency > 0)),
    CONSTRAINT workflows_paused_until_needs_paused_at CHECK (((paused_until IS NULL) OR (paused_at IS NOT NULL))),
    CONSTRAINT workflows_version_check CHECK ((version > 0))
);

ALTER TABLE public.workflows ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.workflows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_default DEFAULT;

ALTER TABLE ONLY public.alert_evaluation
    ADD CONSTRAINT alert_evaluation_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.alert_incidents
    ADD CONSTRAINT alert_incidents_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.alert_messages
    ADD CONSTRAINT alert_messages_pkey PRIMARY KEY (number);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_name_key UNIQUE (name);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_request_key_key UNIQUE (request_key);

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.asset_digests
    ADD CONSTRAINT asset_digests_pkey PRIMARY KEY (asset_id);

ALTER TABLE ONLY public.assets
    ADD CONSTRAINT assets_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.backfill_partitions
    ADD CONSTRAINT backfill_partitions_pkey PRIMARY KEY (workflow_id, partition_key, backfill_id);

ALTER TABLE ONLY public.backfill_workflows
    ADD CONSTRAINT backfill_workflows_pkey PRIMARY KEY (backfill_id, workflow_id);

ALTER TABLE ONLY public.backfills
    ADD CONSTRAINT backfills_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.backfills
    ADD CONSTRAINT backfills_request_key_key UNIQUE (request_key);

ALTER TABLE ONLY public.bus_cursor
    ADD CONSTRAINT bus_cursor_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.considerations
    ADD CONSTRAINT considerations_pkey PRIMARY KEY (workflow_id, partition_key);

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (asset_id, partition_key, last_number);

ALTER TABLE ONLY public.edges
    ADD CONSTRAINT edges_pkey PRIMARY KEY (asset_id, workflow_id);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY ("time", id);

ALTER TABLE ONLY public.events_default
    ADD CONSTRAINT events_default_pkey PRIMARY KEY ("time", id);

ALTER TABLE ONLY public.freshline_migrations
    ADD CONSTRAINT freshline_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (asset_id, partition_key);

ALTER TABLE ONLY public.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY public.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.partition_keys
    ADD CONSTRAINT partition_keys_pkey PRIMARY KEY (asset_id, partition_key);

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_pkey PRIMARY KEY (project, name);

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.proposed_partitions
    ADD CONSTRAINT proposed_partitions_pkey PRIMARY KEY (workflow_id, partition_key);

ALTER TABLE ONLY public.report_groups
    ADD CONSTRAINT report_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.run_logs
    ADD CONSTRAINT run_logs_pkey PRIMARY KEY (run_id, line);

ALTER TABLE ONLY public.run_steps
    ADD CONSTRAINT run_steps_pkey PRIMARY KEY (run_id, step_id, attempt, try);

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_request_key_key UNIQUE (request_key);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (asset_id, partition_key, sequence);

ALTER TABLE ONLY public.sweep_cursor
    ADD CONSTRAINT sweep_cursor_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.table_commits
    ADD CONSTRAINT table_commits_pkey PRIMARY KEY (asset_id, partition_key, table_version);

ALTER TABLE ONLY public.timers
    ADD CONSTRAINT timers_pkey PRIMARY KEY (asset_id, partition_key, kind);

ALTER TABLE ONLY public.watched_files
    ADD CONSTRAINT watched_files_pkey PRIMARY KEY (asset_id, path_key);

ALTER TABLE ONLY public.watches
    ADD CONSTRAINT watches_pkey PRIMARY KEY (asset_id);

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (webhook_id, "position");

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_name_key UNIQUE (name);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_request_key_key UNIQUE (request_key);

ALTER TABLE ONLY public.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.workflow_partitions
    ADD CONSTRAINT workflow_partitions_pkey PRIMARY KEY (workflow_id, partition_key);

ALTER TABLE ONLY public.workflow_versions
    ADD CONSTRAINT workflow_versions_pkey PRIMARY KEY (workflow_id, version);

ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_slug_key UNIQUE (slug);

CREATE INDEX alert_incidents_current ON public.alert_incidents USING btree (rule_id) WHERE (done_at IS NULL);

CREATE INDEX alert_incidents_done ON public.alert_incidents USING btree (done_at) WHERE (done_at IS NOT NULL);

CREATE INDEX alert_incidents_recent ON public.alert_incidents USING btree (rule_id, opened_at DESC, id DESC);

CREATE INDEX alert_messages_recent ON public.alert_messages USING btree (rule_id, created_at);

CREATE INDEX alert_messages_waiting ON public.alert_messages USING btree (rule_id, target, number) WHERE ((sent_at IS NULL) AND (dead_at IS NULL));

CREATE INDEX alert_rules_project ON public.alert_rules USING btree (project) WHERE (project IS NOT NULL);

CREATE UNIQUE INDEX api_tokens_name ON public.api_tokens USING btree (name) WHERE (revoked_at IS NULL);

CREATE UNIQUE INDEX assets_case ON public.assets USING btree (lower(id));

CREATE INDEX assets_partitioned ON public.assets USING btree (producer_id) WHERE (partitioning IS NOT NULL);

CREATE INDEX assets_producer ON public.assets USING btree (producer_id) WHERE (producer_id IS NOT NULL);

CREATE INDEX audit_recent ON public.audit USING btree (at DESC, id DESC);

CREATE INDEX backfill_partitions_backfill ON public.backfill_partitions USING btree (backfill_id, state);

CREATE INDEX backfill_workflows_open ON public.backfill_workflows USING btree (workflow_id) WHERE open;

CREATE INDEX backfills_ended ON public.backfills USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX backfills_open ON public.backfills USING btree (requested_at) WHERE (ended_at IS NULL);

CREATE INDEX backfills_recent ON public.backfills USING btree (requested_at DESC, id DESC);

CREATE INDEX considerations_blocker ON public.considerations USING btree (blocker_id, blocker_key) WHERE (blocker_id IS NOT NULL);

CREATE INDEX considerations_counted ON public.considerations USING btree (workflow_id, counted) WHERE (counted IS NOT NULL);

CREATE INDEX considerations_due ON public.considerations USING btree (class, not_before);

CREATE INDEX considerations_expanding ON public.considerations USING btree (workflow_id) WHERE (expanded_to IS NOT NULL);

CREATE INDEX considerations_partitions ON public.considerations USING btree (workflow_id, not_before) WHERE (partition_key <> ''::text);

CREATE INDEX considerations_proposed ON public.considerations USING btree (workflow_id, partition_key) WHERE ((hold = 'backfill-proposed'::text) AND (counted IS NOT NULL));

CREATE INDEX decisions_history ON public.decisions USING btree (workflow_id, partition_key, at DESC, id DESC);

CREATE INDEX decisions_recent ON public.decisions USING btree (at DESC, id DESC);

CREATE INDEX decisions_run ON public.decisions USING btree (run_id) WHERE (run_id IS NOT NULL);

CREATE INDEX deliveries_by_key ON public.deliveries USING gin (keys) WITH (fastupdate=off);

CREATE INDEX deliveries_loose ON public.deliveries USING btree (asset_id, partition_key, last_number) WHERE (first_number = last_number);

CREATE INDEX deliveries_with_skipped ON public.deliveries USING btree (asset_id, partition_key, last_number) WHERE (skipped <> '[]'::jsonb);

CREATE INDEX edges_mapped ON public.edges USING btree (asset_id) WHERE mapped;

CREATE INDEX edges_workflow ON public.edges USING btree (workflow_id, asset_id);

CREATE INDEX events_position ON ONLY public.events USING btree ("position") WHERE ("position" IS NOT NULL);

CREATE INDEX events_default_position_idx ON public.events_default USING btree ("position") WHERE ("position" IS NOT NULL);

CREATE INDEX events_subject ON ONLY public.events USING btree (subject, "time" DESC);

CREATE INDEX events_default_subject_time_idx ON public.events_default USING btree (subject, "time" DESC);

CREATE INDEX events_unstamped ON ONLY public.events USING btree ("time", id) WHERE ("position" IS NULL);

CREATE INDEX events_default_time_id_idx ON public.events_default USING btree ("time", id) WHERE ("position" IS NULL);

CREATE INDEX heads_dimension_1 ON public.heads USING btree (asset_id, split_part(partition_key, '|'::text, 1)) WHERE ((partition_key ~~ '%|%'::text) AND (retired_at IS NULL));

CREATE INDEX heads_dimension_2 ON public.heads USING btree (asset_id, split_part(partition_key, '|'::text, 2)) WHERE ((partition_key ~~ '%|%'::text) AND (retired_at IS NULL));

CREATE INDEX heads_dimension_3 ON public.heads USING btree (asset_id, split_part(partition_key, '|'::text, 3)) WHERE ((partition_key ~~ '%|%'::text) AND (retired_at IS NULL));

CREATE INDEX heads_with_data ON public.heads USING btree (asset_id, partition_key COLLATE "C") WHERE ((retired_at IS NULL) AND (partition_key <> ''::text));

CREATE INDEX partition_keys_seen ON public.partition_keys USING btree (asset_id, first_seen, partition_key);

CREATE INDEX proposed_partitions_backfill ON public.proposed_partitions USING btree (backfill_id, workflow_id);

CREATE INDEX run_logs_at ON public.run_logs USING btree (at);

CREATE INDEX runs_active ON public.runs USING btree (workflow_id, partition_key) WHERE (status = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX runs_backfill ON public.runs USING btree (((trigger ->> 'backfillId'::text))) WHERE ((status = ANY (ARRAY['queued'::text, 'running'::text])) AND (trigger_type = 'backfill'::text));

CREATE INDEX runs_batch ON public.runs USING btree (batch_id) WHERE (batch_id IS NOT NULL);

CREATE UNIQUE INDEX runs_concurrency_slots ON public.runs USING btree (workflow_id, concurrency_slot) WHERE ((status = 'running'::text) AND (concurrency_slot IS NOT NULL));

CREATE INDEX runs_counted ON public.runs USING btree (workflow_id, queued_at) WHERE counted;

CREATE INDEX runs_history ON public.runs USING btree (workflow_id, partition_key, queued_at DESC);

CREATE INDEX runs_leases ON public.runs USING btree (lease_until) WHERE (status = 'running'::text);

CREATE UNIQUE INDEX runs_one_active ON public.runs USING btree (workflow_id, partition_key) WHERE ((status = ANY (ARRAY['queued'::text, 'running'::text])) AND (trigger_type <> 'manual'::text));

CREATE UNIQUE INDEX runs_one_running ON public.runs USING btree (workflow_id, partition_key) WHERE (status = 'running'::text);

CREATE INDEX runs_queue ON public.runs USING btree (project, pool, urgency, id) WHERE (status = 'queued'::text);

CREATE INDEX runs_recent ON public.runs USING btree (queued_at DESC, id DESC);

CREATE UNIQUE INDEX runs_slots ON public.runs USING btree (project, pool, slot) WHERE ((status = 'running'::text) AND (slot IS NOT NULL));

CREATE INDEX snapshots_age ON public.snapshots USING btree (produced_at, event_id) WHERE ((NOT changed) OR (table_version IS NULL) OR (removed_at IS NOT NULL));

CREATE INDEX snapshots_at_change ON public.snapshots USING btree (asset_id, partition_key, change DESC) WHERE (change IS NOT NULL);

CREATE INDEX snapshots_changed ON public.snapshots USING btree (asset_id, partition_key, sequence) WHERE changed;

CREATE INDEX snapshots_changes ON public.snapshots USING btree (asset_id, change) WHERE (change IS NOT NULL);

CREATE UNIQUE INDEX snapshots_event ON public.snapshots USING btree (event_id);

CREATE INDEX snapshots_gone ON public.snapshots USING btree (gone_at) WHERE ((gone_at IS NOT NULL) AND (removed_at IS NULL));

CREATE INDEX snapshots_mixed ON public.snapshots USING btree (asset_id, partition_key, sequence) WHERE ((change IS NOT NULL) AND (mixed OR (mixed_from <> '{}'::jsonb)));

CREATE INDEX snapshots_produced ON public.snapshots USING btree (asset_id, produced_at, sequence) WHERE (changed AND (partition_key = ''::text));

CREATE UNIQUE INDEX snapshots_report_key ON public.snapshots USING btree (asset_id, partition_key, report_key) WHERE (report_key IS NOT NULL);

CREATE INDEX snapshots_run ON public.snapshots USING btree (run_id) WHERE (run_id IS NOT NULL);

CREATE INDEX snapshots_table ON public.snapshots USING btree (asset_id, table_version) WHERE (table_version IS NOT NULL);

CREATE INDEX snapshots_versions ON public.snapshots USING btree (asset_id, partition_key, table_version) WHERE (table_version IS NOT NULL);

CREATE INDEX table_commits_eligible ON public.table_commits USING btree (eligible_at);

CREATE INDEX timers_due ON public.timers USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX timers_overdue ON public.timers USING btree (asset_id) WHERE ((kind = 'overdue'::text) AND (expired_at IS NOT NULL));

CREATE INDEX watched_files_by_revision ON public.watched_files USING btree (asset_id, revision);

CREATE INDEX watched_files_changed ON public.watched_files USING btree (asset_id, seen_at) WHERE (state = 'changed'::text);

CREATE INDEX watches_by_next ON public.watches USING btree (next_at);

CREATE INDEX watches_failing ON public.watches USING btree (asset_id) WHERE (failures > 0);

CREATE INDEX watches_held ON public.watches USING btree (held_by) WHERE (held_by IS NOT NULL);

CREATE INDEX webhook_deliveries_dead ON public.webhook_deliveries USING btree (dead_at) WHERE (dead_at IS NOT NULL);

CREATE INDEX webhook_deliveries_waiting ON public.webhook_deliveries USING btree (webhook_id, "position") WHERE (dead_at IS NULL);

CREATE INDEX workers_live ON public.workers USING btree (seen_at) WHERE (stopped_at IS NULL);

CREATE INDEX workflow_partitions_failing ON public.workflow_partitions USING btree (workflow_id) WHERE (failures > 0);

CREATE INDEX workflow_versions_job ON public.workflow_versions USING btree (workflow_id, job_fingerprint, version);

CREATE INDEX workflows_project ON public.workflows USING btree (project) WHERE (retired_at IS NULL);

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_default_pkey;

ALTER INDEX public.events_position ATTACH PARTITION public.events_default_position_idx;

ALTER INDEX public.events_subject ATTACH PARTITION public.events_default_subject_time_idx;

ALTER INDEX public.events_unstamped ATTACH PARTITION public.events_default_time_id_idx;

ALTER TABLE ONLY public.alert_incidents
    ADD CONSTRAINT alert_incidents_rule_id_fkey FOREIGN KEY (rule_id) REFERENCES public.alert_rules(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.alert_messages
    ADD CONSTRAINT alert_messages_rule_id_fkey FOREIGN KEY (rule_id) REFERENCES public.alert_rules(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.alert_rules
    ADD CONSTRAINT alert_rules_project_fkey FOREIGN KEY (project) REFERENCES public.projects(name);

ALTER TABLE ONLY public.asset_digests
    ADD CONSTRAINT asset_digests_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.assets
    ADD CONSTRAINT assets_producer_id_fkey FOREIGN KEY (producer_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.backfill_partitions
    ADD CONSTRAINT backfill_partitions_backfill_id_workflow_id_fkey FOREIGN KEY (backfill_id, workflow_id) REFERENCES public.backfill_workflows(backfill_id, workflow_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.backfill_workflows
    ADD CONSTRAINT backfill_workflows_backfill_id_fkey FOREIGN KEY (backfill_id) REFERENCES public.backfills(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.backfill_workflows
    ADD CONSTRAINT backfill_workflows_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.considerations
    ADD CONSTRAINT considerations_blocker_id_fkey FOREIGN KEY (blocker_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.considerations
    ADD CONSTRAINT considerations_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.edges
    ADD CONSTRAINT edges_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.edges
    ADD CONSTRAINT edges_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.heads
    ADD CONSTRAINT heads_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.heads
    ADD CONSTRAINT heads_asset_id_partition_key_sequence_fkey FOREIGN KEY (asset_id, partition_key, sequence) REFERENCES public.snapshots(asset_id, partition_key, sequence) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.inbox
    ADD CONSTRAINT inbox_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.inbox
    ADD CONSTRAINT inbox_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.partition_keys
    ADD CONSTRAINT partition_keys_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.pools
    ADD CONSTRAINT pools_project_fkey FOREIGN KEY (project) REFERENCES public.projects(name);

ALTER TABLE ONLY public.proposed_partitions
    ADD CONSTRAINT proposed_partitions_backfill_id_workflow_id_fkey FOREIGN KEY (backfill_id, workflow_id) REFERENCES public.backfill_workflows(backfill_id, workflow_id) ON DELETE CASCADE;

ALTER TABLE ONLY public.run_logs
    ADD CONSTRAINT run_logs_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.run_steps
    ADD CONSTRAINT run_steps_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_workflow_id_version_fkey FOREIGN KEY (workflow_id, version) REFERENCES public.workflow_versions(workflow_id, version);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.table_commits
    ADD CONSTRAINT table_commits_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.timers
    ADD CONSTRAINT timers_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id);

ALTER TABLE ONLY public.watched_files
    ADD CONSTRAINT watched_files_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.watches
    ADD CONSTRAINT watches_asset_id_fkey FOREIGN KEY (asset_id) REFERENCES public.assets(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES public.webhooks(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.workflow_partitions
    ADD CONSTRAINT workflow_partitions_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.workflow_versions
    ADD CONSTRAINT workflow_versions_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES public.workflows(id);

ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_project_fkey FOREIGN KEY (project) REFERENCES public.projects(name);
