-- Frees a key that any live session holds under the token. Not while sessions bring
-- back what they held: the evicted one could still do so.
-- ARGV: session (of the caller), gen, ttl µs, key, token
-- Returns {'ok', 1 freed or 0} | {'recovering', grace()} | {'stale'} | {'lost'}
local ttl, key, token = tonumber(ARGV[3]), ARGV[4], ARGV[5]
local why, granting = standing(ARGV[1], ARGV[2], ttl)
if why then return {why} end
if not granting then return {'recovering', grace(ttl, tonumber(redis.call('HGET', state, 'until')))} end
local field, value, by = holding(key, token)
if not field or not live(by) then return {'ok', 0} end
drop(key, field, value)
redis.call('HSET', state, '~' .. by, text(math.max(now, 1 + tonumber(redis.call('HGET', state, '~' .. by) or 0))))
advance(key, granting)
return {'ok', 1}
