-- ARGV: session
-- Returns {'ok'}
redis.call('ZREM', sessions, ARGV[1])
redis.call('HDEL', terms, ARGV[1])
redis.call('HDEL', evictions, ARGV[1])
wipe(ARGV[1], -1)
return {'ok'}
