-- Brings a session, all that it holds, and its places with their numbers, into a generation that does not know it yet. Only
-- while nothing is granted: later another session may have got its keys.
-- ARGV: session, ttl µs, number of holdings, then key, record of each; then key, acquisition, value (see places) of each place
-- Returns {'ok', gen, proof, "key token" of each holding that is held under a later token…} | {'lost'}
local session, ttl, waits = ARGV[1], tonumber(ARGV[2]), 4 + 2 * tonumber(ARGV[3])
local gen, till = epoch(ttl, false)
local term = gen .. ' ' .. text(ttl)
if redis.call('HGET', terms, session) == term then -- an earlier call, whose answer was lost, did it
  if live(session) then return {'ok', gen, redis.call('HGET', state, 'proof') or ''} else return {'lost'} end
end
if till <= now then return {'lost'} end
-- Peers with a ttl as long as mine may need as long to come back.
local began = tonumber(redis.call('HGET', state, 'began'))
if began + ttl > till then redis.call('HSET', state, 'until', text(began + ttl)) end

-- room drops what an old snapshot says of a key in place of a holding, unless it was granted later.
local function room(key, token, kind)
  bring(key)
  local held = redis.call('HGET', holders, key)
  if admits(held, kind) then return true end
  local shared = together(held)
  local others = shared and records(key, -1) or {key}
  local last = redis.call('HGET', holders, shared == kind and others[1] or others[#others])
  if tonumber((fields(last))) > token then return false end
  for n, field in ipairs(others) do
    if shared ~= kind or n == 1 then drop(key, field, redis.call('HGET', holders, field)) end
  end
  return true
end

wipe(session, -1, false) -- what an old snapshot says that it has
local from = '[k'
while from do from = sweep(from, function(other) return other == session end) end
local answer = {'ok', gen, redis.call('HGET', state, 'proof') or ''}
for i = 4, waits - 1, 2 do
  local key, value = ARGV[i], ARGV[i + 1]
  local token = fields(value)
  if room(key, tonumber(token), kind_of(value)) then
    put(key, value)
    raise(tonumber(token))
  else
    answer[#answer + 1] = key .. ' ' .. token
  end
end
for i = waits, #ARGV, 3 do
  local key, acquisition, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local number = string.match(value, '^%d+')
  enqueue(key, number, session, acquisition, value)
  local last = tonumber(redis.call('HGET', state, 'number') or 0)
  redis.call('HSET', state, 'number', text(math.max(last, tonumber(number))))
  if redis.call('HEXISTS', holders, key) == 0 then redis.call('HSET', holders, key, '!') end
end
install(session, ttl)
redis.call('HSET', terms, session, term)
return answer
