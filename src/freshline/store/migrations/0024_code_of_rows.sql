-- Which code made the rows of a snapshot: a list of {workflow, workflowVersion, rows, parts}. `workflowVersion` is the first one of the workflow
-- with that job. `forWorkflow` and `forVersion` name the code for which such rows were accepted as they are. Null: unknown.
ALTER TABLE snapshots ADD COLUMN code jsonb;

-- The first version of a workflow with a job.
CREATE INDEX workflow_versions_job ON workflow_versions (workflow_id, job_fingerprint, version);

-- The entries of `code` that were made by another job than the current one of the producer, and not accepted for it.
CREATE FUNCTION freshline_older_code(made jsonb, producer bigint) RETURNS jsonb
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

-- What is there counts as made by the code of now: nobody is asked because of the upgrade.
UPDATE snapshots s
   SET code = jsonb_build_array(jsonb_build_object(
           'workflow', w.id, 'rows', s.rows, 'parts', s.table_version - s.base_version + 1,
           'workflowVersion', (SELECT min(v.version) FROM workflow_versions v
                        WHERE v.workflow_id = w.id AND v.job_fingerprint = w.job_fingerprint)))
  FROM heads h
  JOIN assets a ON a.id = h.asset_id AND a.declaration #>> '{table,mode}' IN ('append', 'merge')
  JOIN workflows w ON w.id = a.producer_id
 WHERE (s.asset_id, s.partition_key, s.sequence) = (h.asset_id, h.partition_key, h.sequence)
   AND s.workflow_id = w.id AND s.table_version IS NOT NULL;
