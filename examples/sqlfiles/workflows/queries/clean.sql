-- Rides that came to an end.
SELECT id, start, finish, minutes
FROM trips_raw
WHERE minutes IS NOT NULL
