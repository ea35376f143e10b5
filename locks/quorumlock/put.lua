-- Brings holdings of a session that have a majority elsewhere.
-- ARGV: session, gen, number, ttl µs, then key, kind, ballot, value of each
-- Returns {'ok', per holding '1' or '0'} | {'stale'} | {'lost'}
local why = standing(ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]))
if why then return {why} end
return bring(ARGV[1], 5, {'ok'})
