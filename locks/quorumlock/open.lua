-- ARGV: session, ttl µs, '1' if the namespace is new as far as the caller knows, '1' if the server is known to be unused
-- Returns {summary()} | what memory.lua returns
local session, ttl = ARGV[1], tonumber(ARGV[2])
epoch(ttl, ARGV[3] == '1', ARGV[4] == '1')
install(session, ttl)
redis.call('HSET', terms, session, '1 ' .. text(ttl))
reap()
return {summary(session)}
