-- Alerts: rules, incidents, and messages that are sent through Apprise.

-- project: it was applied with this project and covers its assets; NULL: it was added by a command and covers all.
-- targets: addresses with secrets, or names of variables; only the sender reads them. shown: the same without secrets.
CREATE TABLE alert_rules (
    id              uuid PRIMARY KEY,
    name            text NOT NULL UNIQUE CHECK (name <> ''),
    project         text REFERENCES projects (name),
    policy          jsonb NOT NULL,
    targets         jsonb NOT NULL,
    shown           text[] NOT NULL,
    request_key     text UNIQUE,
    created_at      timestamptz NOT NULL,
    changed_at      timestamptz NOT NULL,
    paused_at       timestamptz,
    digested_at     timestamptz NOT NULL,
    CONSTRAINT alert_rules_targets_shown CHECK (cardinality(shown) > 0 AND jsonb_array_length(targets) = cardinality(shown))
);
CREATE INDEX alert_rules_project ON alert_rules (project) WHERE project IS NOT NULL;

-- members: all nodes that belonged to it, as workflow:slug or asset:id. done_at: nothing more will be sent about it.
CREATE TABLE alert_incidents (
    id              uuid PRIMARY KEY,
    rule_id         uuid NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    root            text NOT NULL CHECK (root LIKE 'workflow:%' OR root LIKE 'asset:%'),
    kinds           text[] NOT NULL,
    members         text[] NOT NULL,
    assets          text[] NOT NULL,
    affected        integer NOT NULL,
    run_id          uuid,
    error           text,
    opened_at       timestamptz NOT NULL,
    recovered_at    timestamptz,
    closed_at       timestamptz,
    closing         text CHECK (closing IN ('recovered', 'removed', 'unmatched')),
    alerted_at      timestamptz,
    cleared_at      timestamptz,
    done_at         timestamptz,
    CONSTRAINT alert_incidents_closing_iff_closed_at CHECK ((closing IS NULL) = (closed_at IS NULL)),
    CONSTRAINT alert_incidents_cleared_after_alerted CHECK (cleared_at IS NULL OR alerted_at IS NOT NULL),
    CONSTRAINT alert_incidents_done_after_closed CHECK (done_at IS NULL OR closed_at IS NOT NULL)
);
CREATE INDEX alert_incidents_current ON alert_incidents (rule_id) WHERE done_at IS NULL;
CREATE INDEX alert_incidents_recent ON alert_incidents (rule_id, opened_at DESC, id DESC);
CREATE INDEX alert_incidents_done ON alert_incidents (done_at) WHERE done_at IS NOT NULL;

-- One row per address. number: messages to one address are sent in this order. claim: the fencing token of a sender.
CREATE TABLE alert_messages (
    number          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule_id         uuid NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    kind            text NOT NULL CHECK (kind IN ('alert', 'clear', 'summary')),
    incident_ids    uuid[] NOT NULL CHECK (cardinality(incident_ids) > 0),
    target          integer NOT NULL CHECK (target >= 0),
    title           text,
    created_at      timestamptz NOT NULL,
    eligible_at     timestamptz NOT NULL,
    attempts        integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claim           bigint NOT NULL DEFAULT 0,
    lease_until     timestamptz,
    sent_at         timestamptz,
    dead_at         timestamptz,
    trouble         text,
    CONSTRAINT alert_messages_sent_or_dead CHECK (sent_at IS NULL OR dead_at IS NULL)
);
CREATE INDEX alert_messages_waiting ON alert_messages (rule_id, target, number) WHERE sent_at IS NULL AND dead_at IS NULL;
CREATE INDEX alert_messages_recent ON alert_messages (rule_id, created_at);

-- One row: the digest of all that was wrong at the last evaluation, and when the next one is due without a change (NULL: now).
CREATE TABLE alert_evaluation (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    digest          text NOT NULL DEFAULT '',
    evaluated_at    timestamptz,
    next_at         timestamptz
);
INSERT INTO alert_evaluation DEFAULT VALUES;

-- The evaluation reads only what is wrong.
CREATE INDEX workflow_partitions_failing ON workflow_partitions (workflow_id) WHERE failures > 0;
CREATE INDEX watches_failing ON watches (asset_id) WHERE failures > 0;
CREATE INDEX timers_overdue ON timers (asset_id) WHERE kind = 'overdue' AND expired_at IS NOT NULL;

-- A digest of everything that is wrong: while it stays the same, nothing opens or closes before its time.
CREATE FUNCTION freshline_trouble_digest() RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT md5(concat_ws('|', (SELECT i.epoch FROM installation i),
        (SELECT string_agg(concat_ws(',', p.workflow_id, p.failures, p.breaker_at IS NOT NULL), ';' ORDER BY p.workflow_id)
           FROM workflow_partitions p WHERE p.failures > 0),
        (SELECT string_agg(concat_ws(',', w.asset_id, least(w.failures, 10)), ';' ORDER BY w.asset_id)
           FROM watches w WHERE w.failures > 0),
        (SELECT string_agg(t.asset_id, ';' ORDER BY t.asset_id)
           FROM timers t WHERE t.kind = 'overdue' AND t.expired_at IS NOT NULL)))
$$;
