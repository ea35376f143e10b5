-- The holdings and votes of a key; put in front of the scripts that change them.

local function field_of(key, kind, session, ballot) return key .. ' ' .. kind .. ' ' .. session .. ' ' .. ballot end

local function session_of(field)
  local session, ballot = string.match(field, '^%S+ %S+ (%S+) (%S+)$')
  return session, ballot
end

local function token_of(field) return tonumber(string.match(redis.call('HGET', holders, field) or '0', '^%d+')) end

local function put(field, value)
  redis.call('HSET', holders, field, value)
  redis.call('ZADD', index, 0, field)
  redis.call('ZADD', owned, 0, session_of(field) .. ' ' .. field)
end

local function drop(field)
  if redis.call('HDEL', holders, field) == 0 then return false end
  redis.call('ZREM', index, field)
  redis.call('ZREM', owned, session_of(field) .. ' ' .. field)
  return true
end

-- remaining is for how many µs the live session of a field lasts here if it is not renewed.
local function remaining(field) return text(tonumber(redis.call('ZSCORE', sessions, (session_of(field)))) - now) end

-- fields_of lists the holdings and votes of a key.
local function fields_of(key) return redis.call('ZRANGEBYLEX', index, '[' .. key .. ' ', '(' .. key .. '!') end

-- obstacles lists what of other live holdings excludes a kind, and deletes those of dead sessions.
local function obstacles(key, kind, own)
  local low = kind == 's' and key .. ' x ' or key .. ' ' -- the readers, s, come before
  local found = {}
  for _, field in ipairs(redis.call('ZRANGEBYLEX', index, '[' .. low, '(' .. key .. '!')) do
    if not live((session_of(field))) then
      drop(field)
    elseif field ~= own then
      found[#found + 1] = field
    end
  end
  return found
end

-- make_room drops what excludes a holding that has a majority. A vote, or a holding under a later token, stays.
local function make_room(key, kind, own, token)
  local others = obstacles(key, kind, own)
  for _, field in ipairs(others) do
    local other = token_of(field)
    if other == 0 or other > token then return false end
  end
  for _, field in ipairs(others) do
    drop(field)
    redis.call('HINCRBY', evictions, session_of(field), 1)
  end
  return true
end

local function refuses(session, ballot) return redis.call('ZSCORE', refused, session .. ' ' .. ballot) end

-- bring puts holdings that have a majority elsewhere: key, kind, ballot, value of each, from ARGV[from] on. It appends '1'
-- for each that is held then, else '0': another one is there, or it was released meanwhile.
local function bring(session, from, answer)
  for i = from, #ARGV, 4 do
    local own, token = field_of(ARGV[i], ARGV[i + 1], session, ARGV[i + 2]), tonumber(string.match(ARGV[i + 3], '^%d+'))
    local fits = not refuses(session, ARGV[i + 2]) and make_room(ARGV[i], ARGV[i + 1], own, token)
    if fits then
      put(own, ARGV[i + 3])
      raise(token)
    end
    answer[#answer + 1] = fits and '1' or '0'
  end
  return answer
end

-- wipe frees what a session has, so many as limit at most, and returns whether that was all.
local function wipe(session, limit)
  local some = redis.call('ZRANGEBYLEX', owned, '[' .. session .. ' ', '(' .. session .. '!', 'LIMIT', 0, limit)
  for _, member in ipairs(some) do
    if not drop(string.sub(member, #session + 2)) then redis.call('ZREM', owned, member) end
  end
  return limit < 0 or #some < limit
end

-- reap wipes a few expired sessions, and pulls in sessions that a step back of the clock has made too long.
local function reap()
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', sessions, '-inf', text(now), 'LIMIT', 0, 4)) do
    if wipe(session, 1000) then
      redis.call('ZREM', sessions, session)
      redis.call('HDEL', terms, session)
      redis.call('HDEL', evictions, session)
    end
  end
  local far = redis.call('ZREVRANGE', sessions, 0, 3, 'WITHSCORES')
  for i = 1, #far, 2 do
    local ttl = tonumber(string.match(redis.call('HGET', terms, far[i]) or '', ' (%d+)$'))
    if ttl and tonumber(far[i + 1]) > now + ttl then redis.call('ZADD', sessions, text(now + ttl), far[i]) end
  end
  redis.call('ZREMRANGEBYSCORE', refused, '-inf', text(now))
end
