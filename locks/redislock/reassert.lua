-- Brings a session, and all that it holds, into a generation that does not know it yet. Only while
-- nothing is granted: later another session may have got its keys.
-- ARGV: session, ttl µs, then key, value of each holding (see holders)
-- Returns {'ok', gen, keys that are held under a later token…} | {'lost'}
local session, ttl = ARGV[1], tonumber(ARGV[2])
local gen, till = epoch(ttl, false)
local term = gen .. ' ' .. text(ttl)
if redis.call('HGET', terms, session) == term then -- an earlier call, whose answer was lost, did it
  if live(session) then return {'ok', gen} else return {'lost'} end
end
if till <= now then return {'lost'} end
-- Peers with a ttl as long as mine may need as long to come back.
local began = tonumber(redis.call('HGET', state, 'began'))
if began + ttl > till then redis.call('HSET', state, 'until', text(began + ttl)) end

for _, key in ipairs(keys_of(session, -1)) do -- what an old snapshot says that it holds
  local _, by = fields(redis.call('HGET', holders, key))
  if by == session then drop(key, session) end
end
local answer = {'ok', gen}
for i = 3, #ARGV, 2 do
  local key, value = ARGV[i], ARGV[i + 1]
  local mine = tonumber((fields(value)))
  local token, by = fields(redis.call('HGET', holders, key))
  if token and tonumber(token) > mine then
    answer[#answer + 1] = key
  else
    if by then drop(key, by) end
    redis.call('HSET', holders, key, value)
    redis.call('ZADD', index, 0, key)
    redis.call('ZADD', owned, 0, session .. ' ' .. key)
    raise(mine)
  end
end
install(session, ttl)
redis.call('HSET', terms, session, term)
return answer
