SELECT start, finish, max(minutes) AS minutes
FROM trips_named
GROUP BY start, finish
ORDER BY minutes DESC, start, finish
LIMIT :most
