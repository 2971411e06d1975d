-- The view holds the 24 hours of the day that the run computes, and nothing else.
SELECT carrier, count(*) AS flights, count_if(try_cast(delay AS INT) > 15) AS late
FROM departures_raw
GROUP BY carrier
