-- What `status` and `why` say about assets that nobody uses any more, and about edits that caused a run.

-- Since when no workflow produces or consumes the asset and no project declares it. A later report makes it a source again.
ALTER TABLE assets ADD COLUMN unused_since timestamptz;
UPDATE assets a SET unused_since = freshline_now()
 WHERE a.producer_id IS NULL AND a.source_project IS NULL AND NOT EXISTS (SELECT FROM edges e WHERE e.asset_id = a.id);

-- The Python files of the last apply, with their digests, so that the next apply knows which of them changed.
ALTER TABLE projects ADD COLUMN code_files jsonb NOT NULL DEFAULT '{}';

-- What of the job differs from the version before: files, and fields of the definition.
ALTER TABLE workflow_versions ADD COLUMN changes jsonb NOT NULL DEFAULT '[]';

-- The evidence of a decision. For a changed job it has the edits since the last success before the decision.
CREATE FUNCTION freshline_evidence(decision decisions) RETURNS jsonb
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
