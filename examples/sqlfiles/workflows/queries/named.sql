-- Names in place of numbers.
WITH places AS (SELECT id, name FROM stations)
SELECT trips.id, a.name AS start, b.name AS finish, trips.minutes
FROM trips_clean AS trips
JOIN places AS a ON a.id = trips.start
JOIN places AS b ON b.id = trips.finish
