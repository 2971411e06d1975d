-- name: lock_cursor
-- purpose: up to where the bus has every event; nothing while another relay publishes
SELECT position FROM bus_cursor FOR UPDATE SKIP LOCKED

-- name: unpublished
-- purpose: the next events for the bus in their order: at most a batch, and not many bytes, but always one
SELECT id::text, position, type, subject, time, data,
       '/freshline/' || (SELECT warehouse_id FROM installation) AS source
FROM (
    SELECT id, position, type, subject, time, data,
           sum(octet_length(data)) OVER (ORDER BY position) - octet_length(data) AS bytes_before
    FROM (
        SELECT id, position, type, subject, time, data::text AS data FROM events
        WHERE position > %(after)s ORDER BY position LIMIT %(batch)s
    ) next
) e
WHERE bytes_before < %(most_bytes)s
ORDER BY position

-- name: move_cursor
-- purpose: the bus has everything up to here
UPDATE bus_cursor SET position = %(position)s
