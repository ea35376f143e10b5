-- ARGV: session
-- Returns {'ok'}
local session = ARGV[1]
for _, key in ipairs(keys_of(session, -1)) do
  local _, by = fields(redis.call('HGET', holders, key))
  if by == session then drop(key, session) else redis.call('ZREM', owned, session .. ' ' .. key) end
end
redis.call('ZREM', sessions, session)
redis.call('HDEL', terms, session)
return {'ok'}
