-- Acquires each free key, in one pass; a key whose holder's session has expired is free.
-- Nothing is written unless something is granted.
-- ARGV: session, gen, ttl µs, acquisition, owner, then key, meta of each want
-- Returns {'ok', per want: '+token' granted | '-value of holders' busy | '?' and grace() recovering}
--       | {'stale'} | {'lost'}
local session, gen, acquisition, owner = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local why = wrong(redis.call('HGET', state, 'gen'), gen, session)
if why then return {why} end

local answer, free = {'ok'}, {}
for i = 6, #ARGV, 2 do
  local held = redis.call('HGET', holders, ARGV[i])
  local token, by, under = fields(held)
  local slot = (i - 2) / 2
  if by == session and under == acquisition then
    answer[slot] = '+' .. token
  elseif by and live(by) then
    answer[slot] = '-' .. held
  else
    free[#free + 1] = {arg = i, slot = slot, by = by}
  end
end
if #free == 0 then return answer end

-- The run_id is compared where it matters, before a grant: a restarted server has an old state.
local present, till = epoch(tonumber(ARGV[3]), false)
if present ~= gen then return {'stale'} end
if till > now then
  local wait = grace(tonumber(ARGV[3]), till)
  for _, f in ipairs(free) do answer[f.slot] = '?' .. wait end
  return answer
end
local token = math.max(tonumber(redis.call('HGET', state, 'token')) + 1, now)
redis.call('HSET', state, 'token', text(token))
for _, f in ipairs(free) do
  local key = ARGV[f.arg]
  local value = {text(token), session, acquisition, text(now), owner, ARGV[f.arg + 1]}
  redis.call('HSET', holders, key, table.concat(value, '\n'))
  redis.call('ZADD', index, 0, key)
  redis.call('ZADD', owned, 0, session .. ' ' .. key)
  if f.by then redis.call('ZREM', owned, f.by .. ' ' .. key) end
  answer[f.slot] = '+' .. text(token)
end
return answer
