-- Which process looks at a source, so that the lease of one that stopped or died does not have to end by itself.

ALTER TABLE watches ADD COLUMN held_by uuid; -- of `workers`, during a look; NULL also if the process is not known
CREATE INDEX watches_held ON watches (held_by) WHERE held_by IS NOT NULL;
