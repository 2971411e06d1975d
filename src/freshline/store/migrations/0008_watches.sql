-- Watchers: what Freshline looks at to notice new data of sources by itself.

-- One row per source with `watch`. `claim` is the fencing token of a look; while one is under way, `next_at` is the end
-- of its lease. `revision` counts the changes of watched_files, so that a process reads only what is new there.
CREATE TABLE watches (
    asset_id        text NOT NULL REFERENCES assets (id) ON DELETE CASCADE,
    kind            text NOT NULL,
    mode            text NOT NULL,
    spec            jsonb NOT NULL,
    every_ms        bigint NOT NULL,
    timeout_ms      bigint NOT NULL,
    next_at         timestamptz NOT NULL,
    claim           bigint NOT NULL DEFAULT 0,
    lease_until     timestamptz,
    position        jsonb,
    revision        bigint NOT NULL DEFAULT 0,
    looked_at       timestamptz,
    summary         text,
    conflicts       jsonb NOT NULL DEFAULT '[]',
    reported_at     timestamptz,
    reported        bigint NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,
    failing_since   timestamptz,
    error           text,
    breaker_at      timestamptz,
    CONSTRAINT watches_pkey PRIMARY KEY (asset_id),
    CONSTRAINT watches_mode_is_known CHECK (mode IN ('snapshot', 'append')),
    CONSTRAINT watches_failing_has_error CHECK ((failures > 0) = (error IS NOT NULL)),
    CONSTRAINT watches_breaker_needs_failures CHECK (breaker_at IS NULL OR failures > 0)
);
CREATE INDEX watches_by_next ON watches (next_at);

-- The files that looks have delivered or ignored. A file that is gone stays here: if it comes back it is not new.
CREATE TABLE watched_files (
    asset_id        text NOT NULL REFERENCES assets (id) ON DELETE CASCADE,
    path_key        uuid NOT NULL, -- a digest of the path, which may be too long for an index
    path            text NOT NULL,
    size            bigint NOT NULL,
    version         text NOT NULL, -- the ETag, or the time of the last change
    identity        bigint NOT NULL, -- a digest of size and version
    state           text NOT NULL,
    was_size        bigint, -- of a changed file, when it was delivered
    was_version     text,
    seen_at         timestamptz NOT NULL,
    revision        bigint NOT NULL,
    CONSTRAINT watched_files_pkey PRIMARY KEY (asset_id, path_key),
    CONSTRAINT watched_files_state_is_known CHECK (state IN ('delivered', 'ignored', 'changed'))
);
CREATE INDEX watched_files_by_revision ON watched_files (asset_id, revision);
CREATE INDEX watched_files_changed ON watched_files (asset_id, seen_at) WHERE state = 'changed';

-- The milliseconds until the next look: `every`, sooner if the look asks for it, later if looks take long, so that a
-- watcher works for at most a tenth of the time.
CREATE FUNCTION freshline_next_look(every_ms bigint, pause_ms bigint, took_ms bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN pause_ms = 0 THEN 0
                ELSE greatest(least(every_ms, coalesce(pause_ms, every_ms)), 9 * took_ms) END
$$;
