-- The routes with the most rides; `most` is a parameter of the run.
SELECT start, finish, count(*) AS rides
FROM trips_named
GROUP BY start, finish
ORDER BY rides DESC, start, finish
LIMIT :most
