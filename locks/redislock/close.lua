-- ARGV: session, gen or '', ttl µs
-- Returns {'ok'}
local session = ARGV[1]
local _, granting = standing(session, ARGV[2], tonumber(ARGV[3]))
redis.call('ZREM', sessions, session)
redis.call('HDEL', terms, session)
redis.call('HDEL', state, '~' .. session)
wipe(session, -1, granting)
return {'ok'}
