-- name: change
-- purpose: the snapshot that an event tells of, and the data that was current after it
SELECT s.asset_id, s.partition_key, s.sequence, s.data_version, s.changed, s.produced_at AS at, c.data_version AS current,
       EXISTS (SELECT FROM inbox WHERE event_id = %(event)s) AS unabsorbed
  FROM snapshots s
  LEFT JOIN LATERAL (
      SELECT x.data_version FROM snapshots x
       WHERE (x.asset_id, x.partition_key) = (s.asset_id, s.partition_key) AND x.changed AND x.sequence <= s.sequence
       ORDER BY x.sequence DESC LIMIT 1
  ) c ON true
 WHERE s.event_id = %(event)s

-- name: consumers
-- purpose: what each consumer of a changed asset read of it, and how it stands; the first so many by slug, and how many
SELECT w.slug, w.consumers, w.triggers, w.automatic, (w.policy ->> 'declared')::boolean AS declared,
       -- Whether an unchanged production is more than a repetition to it: it completes a round, or renews an age.
       ((w.policy ->> 'when') = 'all' AND w.triggers)
       OR jsonb_path_exists(w.policy, '$.inputs[*] ? (@.asset_id == $asset && @.max_age_ms != null)',
                            jsonb_build_object('asset', %(asset)s::text)) AS counts_unchanged,
       p.vector -> %(asset)s AS vector,
       r.id AS run_id, r.status, r.trigger, r.trigger_type, r.queued_at, r.decision_id, r.pin,
       o.evidence AS origin, c.sequence AS newest, c.event_id AS newest_event,
       f.id AS tried, f.status AS tried_status,
       k.not_before <= (SELECT freshline_now()) AS due,
       d.id AS decision, d.outcome, d.reason, d.evidence, d.last_at
  FROM (SELECT e.triggers, count(*) OVER () AS consumers, w.id, w.slug, w.automatic, w.policy
          FROM edges e JOIN workflows w ON w.id = e.workflow_id AND w.retired_at IS NULL
         WHERE e.asset_id = %(asset)s ORDER BY w.slug LIMIT %(limit)s) w
  LEFT JOIN workflow_partitions p ON (p.workflow_id, p.partition_key) = (w.id, %(partition)s)
  LEFT JOIN considerations k ON (k.workflow_id, k.partition_key) = (w.id, %(partition)s)
  -- Runs that were queued before it came read it only if they were renewed, as the one that was active then may be.
  LEFT JOIN LATERAL (
      SELECT x.queued_at FROM runs x
       WHERE (x.workflow_id, x.partition_key) = (w.id, %(partition)s) AND x.queued_at < %(at)s
         AND x.trigger_type = 'auto-materialize'
       ORDER BY x.queued_at DESC LIMIT 1
  ) q ON true
  LEFT JOIN LATERAL (
      SELECT * FROM (
          (SELECT 1 AS rank, x.*, (x.pins -> %(asset)s ->> 'sequence')::bigint AS pin FROM runs x
            WHERE (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
              AND x.queued_at >= coalesce(q.queued_at, %(at)s) AND x.status = 'succeeded'
              AND (x.pins -> %(asset)s ->> 'sequence')::bigint >= %(sequence)s
            ORDER BY x.queued_at, x.finished_at, x.id LIMIT 1)
          UNION ALL
          (SELECT 2, x.*, (x.pins -> %(asset)s ->> 'sequence')::bigint FROM runs x
            WHERE (x.workflow_id, x.partition_key) = (w.id, %(partition)s) AND x.status IN ('queued', 'running')
              AND (x.pins -> %(asset)s ->> 'sequence')::bigint >= %(sequence)s
            ORDER BY x.queued_at LIMIT 1)) x
       ORDER BY x.rank LIMIT 1
  ) r ON true
  LEFT JOIN LATERAL (
      SELECT x.id, x.status FROM runs x
       WHERE r.id IS NULL AND (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
         AND x.queued_at >= coalesce(q.queued_at, %(at)s) AND x.status IN ('failed', 'canceled')
         AND (x.pins -> %(asset)s ->> 'sequence')::bigint >= %(sequence)s
       ORDER BY x.queued_at DESC LIMIT 1
  ) f ON true
  -- The newest change up to what the run reads, or of all if there is no such run.
  LEFT JOIN LATERAL (
      SELECT x.sequence, x.event_id FROM snapshots x
       WHERE (x.asset_id, x.partition_key) = (%(asset)s, %(partition)s) AND x.changed
         AND x.sequence <= coalesce(r.pin, 9223372036854775807)
       ORDER BY x.sequence DESC LIMIT 1
  ) c ON true
  LEFT JOIN LATERAL (
      SELECT x.evidence FROM decisions x WHERE x.run_id = r.id AND x.outcome = 'run' LIMIT 1
  ) o ON true
  LEFT JOIN LATERAL (
      SELECT x.id, x.outcome, x.reason, x.evidence, x.last_at FROM decisions x
       WHERE (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
       ORDER BY x.at DESC, x.id DESC LIMIT 1
  ) d ON true
 ORDER BY w.slug

-- name: producer
-- purpose: how the workflow that makes an expired asset answered: the run of the next snapshot, or the active one
WITH ran_out AS MATERIALIZED (
    SELECT coalesce(
        (SELECT s.sequence FROM snapshots s WHERE s.run_id = %(run)s AND s.asset_id = %(asset)s),
        (SELECT s.sequence FROM snapshots s
          WHERE (s.asset_id, s.partition_key) = (%(asset)s, %(partition)s) AND s.produced_at = %(produced)s
          ORDER BY s.sequence DESC LIMIT 1),
        0) AS sequence
)
SELECT w.slug, 1 AS consumers, w.automatic, (w.policy ->> 'declared')::boolean AS declared,
       jsonb_path_exists(w.policy, '$.outputs[*] ? (@.asset_id == $asset && @.enabled == true)',
                         jsonb_build_object('asset', %(asset)s::text)) AS triggers,
       EXISTS (SELECT FROM inbox WHERE event_id = %(event)s) AS unabsorbed,
       t.event_id IS NOT DISTINCT FROM %(event)s::uuid AS expired,
       n.sequence IS NOT NULL AS answered, l.id AS later_event,
       r.id AS run_id, r.status, r.trigger, r.trigger_type, r.decision_id, o.evidence AS origin,
       NULL AS tried, NULL AS tried_status,
       k.not_before <= (SELECT freshline_now()) AS due,
       d.id AS decision, d.outcome, d.reason, d.evidence, d.last_at
  FROM assets a
  JOIN workflows w ON w.id = a.producer_id
  CROSS JOIN ran_out
  LEFT JOIN timers t ON (t.asset_id, t.partition_key, t.kind) = (a.id, %(partition)s, 'expiry')
  LEFT JOIN considerations k ON (k.workflow_id, k.partition_key) = (w.id, %(partition)s)
  LEFT JOIN LATERAL (
      SELECT x.sequence, x.run_id, x.produced_at FROM snapshots x
       WHERE (x.asset_id, x.partition_key) = (a.id, %(partition)s) AND x.sequence > ran_out.sequence
       ORDER BY x.sequence LIMIT 1
  ) n ON true
  LEFT JOIN LATERAL (
      SELECT x.id FROM events x
       WHERE x.subject = %(asset)s AND x.type = 'asset.expired' AND x.data ->> 'partitionKey' = %(partition)s
         AND x.time BETWEEN %(at)s AND coalesce(n.produced_at, 'infinity')
         AND (x.time, x.id) > (%(at)s, %(event)s::uuid)
       ORDER BY x.time LIMIT 1
  ) l ON true
  LEFT JOIN LATERAL (
      (SELECT x.* FROM runs x WHERE x.id = n.run_id)
      UNION ALL
      (SELECT x.* FROM runs x
        WHERE n.sequence IS NULL AND (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
          AND x.status IN ('queued', 'running')
        ORDER BY x.status DESC, x.queued_at LIMIT 1)
  ) r ON true
  LEFT JOIN LATERAL (
      SELECT x.evidence FROM decisions x WHERE x.run_id = r.id AND x.outcome = 'run' LIMIT 1
  ) o ON true
  LEFT JOIN LATERAL (
      SELECT x.id, x.outcome, x.reason, x.evidence, x.last_at FROM decisions x
       WHERE (x.workflow_id, x.partition_key) = (w.id, %(partition)s)
       ORDER BY x.at DESC, x.id DESC LIMIT 1
  ) d ON true
 WHERE a.id = %(asset)s
