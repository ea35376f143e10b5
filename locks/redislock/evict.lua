-- Frees a key that any live session holds under the token. Not while sessions bring
-- back what they held: the evicted one could still do so.
-- ARGV: session (of the caller), gen, ttl µs, key, token
-- Returns {'ok', 1 freed or 0} | {'recovering', grace()} | {'stale'} | {'lost'}
local gen, till = epoch(tonumber(ARGV[3]), false)
local why = wrong(gen, ARGV[2], ARGV[1])
if why then return {why} end
if till > now then return {'recovering', grace(tonumber(ARGV[3]), till)} end
local token, by = fields(redis.call('HGET', holders, ARGV[4]))
if token ~= ARGV[5] or not live(by) then return {'ok', 0} end
drop(ARGV[4], by)
return {'ok', 1}
