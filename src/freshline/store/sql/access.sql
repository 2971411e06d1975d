-- name: create_token
-- purpose: a token of which only the digest is known; the same one again changes nothing
INSERT INTO api_tokens (id, name, scope, digest, created_at, expires_at)
SELECT %(id)s, %(name)s, %(scope)s, %(digest)s, n.now, n.now + %(lifetime_ms)s * interval '1 millisecond'
  FROM (SELECT freshline_now() AS now OFFSET 0) n
ON CONFLICT (digest) DO NOTHING
RETURNING id

-- name: lock_token
-- purpose: the token with this name, the one that is not revoked if there are several
SELECT id, revoked_at FROM api_tokens WHERE name = %(name)s
 ORDER BY revoked_at DESC NULLS FIRST LIMIT 1 FOR NO KEY UPDATE

-- name: token_names
-- purpose: for did-you-mean
SELECT name FROM api_tokens WHERE revoked_at IS NULL ORDER BY name

-- name: revoke_token
-- purpose: it is worth nothing from now on
UPDATE api_tokens SET revoked_at = freshline_now() WHERE id = %(id)s

-- name: use_token
-- purpose: remember that it was used, at most once in so many milliseconds
UPDATE api_tokens SET used_at = freshline_now()
 WHERE id = %(id)s
   AND (used_at IS NULL OR used_at < freshline_now() - %(every_ms)s * interval '1 millisecond')

-- name: token_state
-- purpose: what the audit tells about a token
SELECT name, scope, expires_at AS "expiresAt", revoked_at AS "revokedAt" FROM api_tokens WHERE id = %(id)s

-- name: workflow_state
-- purpose: what the audit tells about a workflow
SELECT w.paused_at AS "pausedAt", w.paused_until AS "pausedUntil", coalesce(p.failures, 0) AS failures,
       p.eligible_at AS "nextEligibleAt", p.breaker_at AS "breakerOpenedAt"
  FROM workflows w LEFT JOIN workflow_partitions p ON p.workflow_id = w.id AND p.partition_key = ''
 WHERE w.id = %(id)s

-- name: run_state
-- purpose: what the audit tells about a run
SELECT status, attempt, cancel_reason AS "cancelReason" FROM runs WHERE id = %(id)s

-- name: head_state
-- purpose: what the audit tells about an asset that is reported
SELECT last_sequence AS version, data_version AS "dataVersion" FROM heads WHERE asset_id = %(id)s AND partition_key = ''

-- name: timer_state
-- purpose: what the audit tells about an asset that is expired
SELECT due_at AS "dueAt", reason, expired_at AS "expiredAt" FROM timers
 WHERE asset_id = %(id)s AND partition_key = '' AND kind = 'expiry'

-- name: webhook_state
-- purpose: what the audit tells about a webhook; a query in its address may be a secret
SELECT w.name, w.kind, regexp_replace(w.url, '\?.*', '?…') AS url, w.types, w.assets, w.paused_at AS "pausedAt",
       (SELECT count(*) FROM deliveries d WHERE d.webhook_id = w.id AND d.dead_at IS NOT NULL) AS "lettersDead"
  FROM webhooks w WHERE w.id = %(id)s

-- name: project_state
-- purpose: what the audit tells about a project whose definitions are applied
SELECT p.code_hash AS "codeHash", p.applied_at AS "appliedAt",
       (SELECT count(*) FROM workflows w WHERE w.project = p.name AND w.retired_at IS NULL) AS workflows
  FROM projects p WHERE p.name = %(id)s

-- name: log_state
-- purpose: what the audit tells about a table whose log is written anew
SELECT h.sequence AS version,
       (SELECT count(*) FROM table_commits c WHERE c.asset_id = h.asset_id AND c.partition_key = '') AS unlogged
  FROM heads h WHERE h.asset_id = %(id)s AND h.partition_key = ''

-- name: audit
-- purpose: who changed what
INSERT INTO audit (id, at, who, token_id, what, subject, before, after)
VALUES (%(id)s, freshline_now(), %(who)s, %(token)s, %(what)s, %(subject)s, %(before)s, %(after)s)

-- name: prune_audit
-- purpose: forget a batch of what is older than the retention
DELETE FROM audit a USING (
    SELECT id FROM audit WHERE at < freshline_now() - make_interval(days => %(days)s) ORDER BY at LIMIT %(batch)s
) x WHERE a.id = x.id

-- name: prune_tokens
-- purpose: forget tokens that have been worth nothing for longer than the retention
DELETE FROM api_tokens
 WHERE coalesce(least(revoked_at, expires_at), expires_at) < freshline_now() - make_interval(days => %(days)s)
