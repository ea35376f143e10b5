-- ARGV: session, gen, ttl µs
-- Returns {'ok'} | {'stale'} | {'lost'}
local session, ttl = ARGV[1], tonumber(ARGV[3])
local why = wrong(epoch(ttl, false), ARGV[2], session)
if why then return {why} end
install(session, ttl)
reap()
return {'ok'}
