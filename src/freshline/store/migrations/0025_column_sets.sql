-- Consumers that read some columns of an input do not run when others changed.

-- The columns that a workflow reads of an input, in lower case; NULL: whole rows.
ALTER TABLE edges ADD COLUMN columns text[];

-- Versions of the sets of columns that consumers read, by the key of the set. NULL: only the data version is known.
ALTER TABLE snapshots ADD COLUMN column_versions jsonb;
ALTER TABLE heads ADD COLUMN column_versions jsonb;

-- Whether a consumer that has read `consumed` has not read a head: neither its data version nor the columns are the same.
CREATE FUNCTION freshline_differs(data_version text, column_versions jsonb, consumed jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN data_version IS DISTINCT FROM (consumed ->> 'dataVersion')
       AND NOT coalesce(consumed -> 'columns' <> '{}' AND column_versions @> (consumed -> 'columns'), false);
