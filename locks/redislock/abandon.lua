-- Ends an acquisition: gives up its places, frees what was granted under it, and refuses it for one ttl.
-- ARGV: session, gen, ttl µs, acquisition, then its keys
-- Returns {'ok'} | {'stale'} | {'lost'}
local session, ttl, acquisition = ARGV[1], tonumber(ARGV[3]), ARGV[4]
local why, granting = standing(session, ARGV[2], ttl)
if why then return {why} end
redis.call('ZADD', abandoned, text(now + ttl), session .. ' ' .. acquisition)
redis.call('HSET', state, 'refused', text(math.max(now + ttl, tonumber(redis.call('HGET', state, 'refused') or 0))))
for i = 5, #ARGV do
  local key = ARGV[i]
  local number, _, token = place(key, session, acquisition)
  if token then free(key, token, session, granting) end
  if number then
    dequeue(key, number, session, acquisition)
    advance(key, granting)
  end
end
return {'ok'}
