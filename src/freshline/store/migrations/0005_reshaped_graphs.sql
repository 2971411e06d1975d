-- Versions that were pinned before the graph above their workflow changed may be a mix by the new graph.

-- The definitions epoch in which the pins of a run were read, and that of the consumed versions.
ALTER TABLE runs ADD COLUMN epoch bigint;
ALTER TABLE workflow_partitions ADD COLUMN epoch bigint;

-- The last epoch that changed which workflows and assets a workflow descends from.
ALTER TABLE workflows ADD COLUMN reshaped_epoch bigint NOT NULL DEFAULT 0;
