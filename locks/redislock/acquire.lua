-- Releases keys, and then asks for each of the others, if any, in one pass. A call that waits takes a place in the queue of the
-- first key that it does not get at once, and does not ask for those behind it.
-- ARGV: session, gen, ttl µs, acquisition, owner, '1' if it waits, the proof of the state if its script is gone, number of keys
--       to release, then key, token of each; then key, kind, meta of each want
-- Returns {'ok', or 'ok' and behind a blank the proof of the state; per want: '+token' granted | '-' and shown() busy
--         | '~number since' and behind a line feed shown(), queued | '?' and grace() recovering | '!' abandoned}
--       | {'all', '+token' of each} | {'stale'} | {'lost'}
local session, gen, ttl, acquisition, owner = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local waits, wants = ARGV[6] == '1', 9 + 2 * tonumber(ARGV[8])
local why, granting = standing(session, gen, ttl)
if why == 'stale' then return {why} end
for i = 9, wants - 1, 2 do free(ARGV[i], ARGV[i + 1], session, granting) end
local answer = {newer and 'ok ' .. newer or 'ok'}
if wants > #ARGV then return answer end
if why then return {why} end

local refused = tonumber(redis.call('ZSCORE', abandoned, session .. ' ' .. acquisition) or 0) > now
local recovering = not granting and '?' .. grace(ttl, tonumber(redis.call('HGET', state, 'until')))

-- returned says whether a session is known to hold what is listed. One that has not come back since data was lost may have
-- released it, and have been told so.
local function returned(other)
  return other and live(other) and string.find(redis.call('HGET', terms, other) or '', gen .. ' ', 1, true) == 1
end

local token
local function ask(key, kind, meta)
  local alone = not waits and granting and not refused and redis.call('HGET', state, '=' .. key)
  local mine, by, under = fields(alone)
  if by == session and under == acquisition then return '+' .. mine end
  if by and live(by) then return '-' .. shown(alone) end -- without a write
  bring(key)
  local held = redis.call('HGET', holders, key)
  if held then
    local number, asked, had = place(key, session, acquisition)
    if had then return '+' .. had end
    if number then
      local since = string.match(asked, '^%d+')
      redis.call('HSET', places, session .. ' ' .. acquisition .. ' ' .. key, table.concat({number, since, kind, owner, meta}, '\n'))
      return waiting(key, number, since)
    end
  end
  if refused then return '!' end
  if held and granting then
    settle(key, granting)
    held = redis.call('HGET', holders, key)
  end
  local overtakes = held and #below(queue, '[' .. key .. ' ', '(' .. key .. '!', 1) > 0
  if admits(held, kind) and not overtakes then
    if recovering then return recovering end
    token = token or mint()
    put(key, record(token, session, acquisition, kind, owner, meta))
    return '+' .. token
  end
  local first = holder(key)
  local _, other = fields(first)
  if recovering and (waits or admits(held, kind) or not returned(other)) then return recovering end
  if not waits then return '-' .. shown(first) end
  local number = string.format('%016d', redis.call('HINCRBY', state, 'number', 1))
  enqueue(key, number, session, acquisition, table.concat({number, text(now), kind, owner, meta}, '\n'))
  return waiting(key, number, text(now))
end

for i = wants, #ARGV, 3 do
  local outcome = ask(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  answer[#answer + 1] = outcome
  if waits and string.sub(outcome, 1, 1) ~= '+' then break end
end
return answer
