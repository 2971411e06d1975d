-- Sources that were reported together, until everything that could mix half of them with older data is at rest.
CREATE TABLE report_groups (
    id uuid PRIMARY KEY,
    members text[] NOT NULL, -- references of sources or of their partitions, sorted
    reported_at timestamptz NOT NULL,
    CONSTRAINT report_groups_members CHECK (cardinality(members) > 1)
);
