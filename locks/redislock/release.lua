-- Frees the keys that this session holds under the given token, and no others.
-- ARGV: session, gen, ttl µs, then key, token of each
-- Returns {'ok'} | {'stale'}
local session = ARGV[1]
if redis.call('HGET', state, 'gen') ~= ARGV[2] then return {'stale'} end
for i = 4, #ARGV, 2 do
  local token, by = fields(redis.call('HGET', holders, ARGV[i]))
  if by == session and token == ARGV[i + 1] then drop(ARGV[i], session) end
end
return {'ok'}
