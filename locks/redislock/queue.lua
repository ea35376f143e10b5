-- The holders of a key, and the queue of those that wait for it; put in front of the scripts that change them.
-- A key is free, and its queue empty, or holders has an entry for it:
--   a record          one session has it alone
--   "*kind count"     it is held together; each holding has a record under "key token"
--   "!"               nobody has it, and the first in its queue gets it as soon as the server grants again
-- A key that acquire_fast.lua has granted has its record in state, under "=key", and no entry: it has one holder, and nobody
-- waits for it. It gets its entry once that may change: see bring().
-- A record is "token\nsession\nacquisition\nsince\nkind\nowner\nmeta". The kind is 1 (alone), s (shared), or a limit.

local function fields(held)
  if not held then return nil end
  return string.match(held, '^(%d+)\n([^\n]*)\n([^\n]*)\n')
end

local function kind_of(record) return string.match(record, '^%d+\n[^\n]*\n[^\n]*\n%d+\n(%w+)') end

-- together returns the kind and the number of those that hold a key together.
local function together(held)
  local kind, count = string.match(held or '', '^%*(%w+) (%d+)$')
  return kind, tonumber(count)
end

local function below(zset, low, high, limit) return redis.call('ZRANGEBYLEX', zset, low, high, 'LIMIT', 0, limit) end

-- records are the fields of those that hold a key together, the first grants first.
local function records(key, limit)
  local fields_of = below(index, '[k' .. key .. ' ', '(k' .. key .. '!', limit)
  for i, member in ipairs(fields_of) do fields_of[i] = string.sub(member, 2) end
  return fields_of
end

-- put writes the record of a holding.
local function put(key, record)
  local token, session, acquisition = fields(record)
  local kind, field = kind_of(record), key
  if kind ~= '1' then
    local _, count = together(redis.call('HGET', holders, key))
    field = key .. ' ' .. token
    redis.call('HSET', holders, key, '*' .. kind .. ' ' .. (count or 0) + 1)
    redis.call('HSET', places, session .. ' ' .. acquisition .. ' ' .. key, '+' .. token)
  end
  redis.call('HSET', holders, field, record)
  redis.call('ZADD', index, 0, 'k' .. field, 0, 's' .. session .. ' ' .. field)
end

-- bring makes the entry of a key that acquire_fast.lua has granted.
local function bring(key)
  local record = redis.call('HGET', state, '=' .. key)
  if not record then return end
  redis.call('HDEL', state, '=' .. key)
  put(key, record)
end

-- present is the entry of a key, or the record of one that acquire_fast.lua has granted.
local function present(field) return redis.call('HGET', holders, field) or redis.call('HGET', state, '=' .. field) end

-- drop takes a holding out of the holders of a key.
local function drop(key, field, record)
  local _, session, acquisition = fields(record)
  if redis.call('HDEL', holders, field) == 0 then redis.call('HDEL', state, '=' .. field) end
  redis.call('ZREM', index, 'k' .. field, 's' .. session .. ' ' .. field)
  if field == key then return end
  redis.call('HDEL', places, session .. ' ' .. acquisition .. ' ' .. key)
  local kind, count = together(redis.call('HGET', holders, key))
  if not kind then return end
  if count > 1 then
    redis.call('HSET', holders, key, '*' .. kind .. ' ' .. count - 1)
  else
    redis.call('HDEL', holders, key)
  end
end

-- holding finds what is held of a key under a token.
local function holding(key, token)
  local field = key
  local record = present(key)
  if together(record) then
    field = key .. ' ' .. token
    record = redis.call('HGET', holders, field)
  end
  local has, session = fields(record)
  if has == token then return field, record, session end
end

-- holds says whether a session holds a key under a token.
local function holds(session, key, token)
  local _, _, by = holding(key, token)
  return by == session
end

-- holder is the record of one that has the key.
local function holder(key)
  local held = redis.call('HGET', holders, key)
  if together(held) then
    local first = records(key, 1)[1]
    return first and redis.call('HGET', holders, first) or ''
  end
  return fields(held) and held or ''
end

-- shown is the record of one that has a key, as an answer has it: behind how long its session lasts.
local function shown(record)
  local _, session = fields(record)
  return session and text(math.max(remaining(session), 0)) .. '\n' .. record or ''
end

-- admits says whether the kind may hold a key together with its present holders.
local function admits(held, kind)
  if not held or held == '!' then return true end
  local other, count = together(held)
  return other == kind and (kind == 's' or count < tonumber(kind))
end

local function enqueue(key, number, session, acquisition, place)
  redis.call('ZADD', queue, 0, key .. ' ' .. number .. ' ' .. session .. ' ' .. acquisition)
  redis.call('HSET', places, session .. ' ' .. acquisition .. ' ' .. key, place)
  redis.call('ZADD', index, 0, 's' .. session .. '|' .. acquisition .. ' ' .. key)
end

local function dequeue(key, number, session, acquisition)
  redis.call('ZREM', queue, key .. ' ' .. number .. ' ' .. session .. ' ' .. acquisition)
  redis.call('HDEL', places, session .. ' ' .. acquisition .. ' ' .. key)
  redis.call('ZREM', index, 's' .. session .. '|' .. acquisition .. ' ' .. key)
end

-- place returns the number of a place in the queue, and what it asks for; or the token of what it became.
local function place(key, session, acquisition)
  local has, by, under = fields(present(key))
  if by == session and under == acquisition then return nil, nil, has end
  local found = redis.call('HGET', places, session .. ' ' .. acquisition .. ' ' .. key)
  if not found then return nil end
  if string.sub(found, 1, 1) == '+' then return nil, nil, string.sub(found, 2) end
  return string.match(found, '^(%d+)\n(.*)$')
end

-- waiting is the answer for a place.
local function waiting(key, number, since) return '~' .. number .. ' ' .. since .. '\n' .. shown(holder(key)) end

local minted
local function mint()
  minted = math.max(tonumber(redis.call('HGET', state, 'token')) + 1, now)
  redis.call('HSET', state, 'token', text(minted))
  return text(minted)
end

local function record(token, session, acquisition, kind, owner, meta)
  return table.concat({token, session, acquisition, text(now), kind, owner, meta}, '\n')
end

-- advance grants a key to those whose turn has come, and tells their processes, unless nothing may be granted.
local function advance(key, granting)
  while true do
    local first = below(queue, '[' .. key .. ' ', '(' .. key .. '!', 1)[1]
    local held = redis.call('HGET', holders, key)
    if not first then
      if held == '!' then redis.call('HDEL', holders, key) end
      return
    end
    local number, session, acquisition = string.match(first, '^%S+ (%S+) (%S+) (%S+)$')
    if not live(session) then
      dequeue(key, number, session, acquisition)
    else
      local asked = redis.call('HGET', places, session .. ' ' .. acquisition .. ' ' .. key)
      local kind, owner, meta = string.match(asked or '0\n0\n0\n\n', '^%d+\n%d+\n(%w+)\n([^\n]*)\n(.*)$')
      if not admits(held, kind) then return end
      if not granting then
        if not held then redis.call('HSET', holders, key, '!') end
        return
      end
      dequeue(key, number, session, acquisition)
      local token = mint()
      put(key, record(token, session, acquisition, kind, owner, meta))
      redis.pcall('PUBLISH', inbox .. session, table.concat({granting, acquisition, token, key}, ' '))
      if kind == '1' then return end
    end
  end
end

-- settle frees what dead sessions have of a key, and lets its queue advance.
local function settle(key, granting)
  bring(key)
  local held = redis.call('HGET', holders, key)
  local some = together(held) and records(key, -1) or {key}
  for _, field in ipairs(some) do
    local value = redis.call('HGET', holders, field)
    local _, session = fields(value)
    if session and not live(session) then drop(key, field, value) end
  end
  advance(key, granting)
end

-- wipe frees what a session has entries for and gives up its places, so many as limit at most, and returns whether that was all.
local function wipe(session, limit, granting)
  local keys = {}
  local waits = below(index, '[s' .. session .. '|', '(s' .. session .. '}', limit)
  for _, member in ipairs(waits) do
    local acquisition, key = string.match(string.sub(member, #session + 3), '^(%S+) (%S+)$')
    local number = place(key, session, acquisition)
    if number then dequeue(key, number, session, acquisition) else redis.call('ZREM', index, member) end
    keys[#keys + 1] = key
  end
  local holds = below(index, '[s' .. session .. ' ', '(s' .. session .. '!', limit)
  for _, member in ipairs(holds) do
    local field = string.sub(member, #session + 3)
    local key = string.match(field, '^%S+')
    local value = redis.call('HGET', holders, field)
    local _, by = fields(value)
    if by == session then drop(key, field, value) else redis.call('ZREM', index, member) end
    keys[#keys + 1] = key
  end
  for _, key in ipairs(keys) do advance(key, granting) end
  return limit < 0 or #waits < limit and #holds < limit
end

-- sweep frees keys that acquire_fast.lua has granted to sessions of which gone says so. It looks at a part of the index, and
-- returns where the rest begins; nil: that was all.
local function sweep(from, gone)
  local members, names = below(index, from, '(l', 1000), {}
  if #members == 0 then return nil end
  for i, member in ipairs(members) do names[i] = '=' .. string.sub(member, 2) end
  for i, record in ipairs(redis.call('HMGET', state, unpack(names))) do
    local _, session = fields(record)
    local key = string.sub(names[i], 2)
    if session and gone(session) then drop(key, key, record) end
  end
  return #members == 1000 and '(' .. members[1000] or nil
end

-- unregister forgets a session that has no entries any more.
local function unregister(session)
  redis.call('ZREM', sessions, session)
  redis.call('HDEL', terms, session)
  redis.call('HDEL', state, '~' .. session, '@' .. session)
end

-- reap wipes a few expired sessions, sweeps, and pulls in sessions that a step back of the server's clock has made too long.
local function reap(granting)
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', sessions, '-inf', text(now), 'LIMIT', 0, 4)) do
    if wipe(session, 1000, granting) then
      unregister(session)
      redis.call('HSET', state, 'swept', '[k') -- nobody waits for what that finds, and it is free to all who ask
    end
  end
  local from = redis.call('HGET', state, 'swept')
  if from then
    from = sweep(from, function(session) return not live(session) end)
    if from then redis.call('HSET', state, 'swept', from) else redis.call('HDEL', state, 'swept') end
  end
  local far = redis.call('ZREVRANGE', sessions, 0, 3, 'WITHSCORES')
  for i = 1, #far, 2 do
    local ttl = tonumber(string.match(redis.call('HGET', terms, far[i]) or '', ' (%d+)$'))
    if ttl and tonumber(far[i + 1]) > now + ttl then install(far[i], ttl) end
  end
  redis.call('ZREMRANGEBYSCORE', abandoned, '-inf', text(now))
end

-- free releases what a session holds of a key under a token.
local function free(key, token, session, granting)
  local field, value, by = holding(key, token)
  if by ~= session or not field then return end
  drop(key, field, value)
  advance(key, granting)
end

