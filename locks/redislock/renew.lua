-- ARGV: session, gen, ttl µs
-- Returns {'ok'} | {'stale'} | {'lost'}
local session, ttl = ARGV[1], tonumber(ARGV[3])
local why, granting = standing(session, ARGV[2], ttl)
if why then return {why} end
install(session, ttl)
reap(granting)
return {'ok'}
