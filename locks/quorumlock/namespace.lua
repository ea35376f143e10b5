-- What all scripts of a namespace share; it is put in front of each. A script sees one moment of one server: now, in µs of
-- its clock. KEYS, all with the namespace's hash tag:
--   1 state     hash  run, gen, began, until (0: over): see epoch(); synced: '1' once a client has brought the high-water
--                     mark of the other servers; token: the high-water mark
--   2 sessions  zset  session -> when it expires
--   3 terms     hash  session -> "number ttl": how often it was installed here, as it counts
--   4 holders   hash  "key kind session ballot" -> "token\nsince\nowner\nmeta". The kind is s (shared) or x. A holding with
--                     token 0 is a vote: its acquisition may not have a majority
--   5 index     zset  fields of holders, in lexical order
--   6 owned     zset  "session field" of each, in lexical order
--   7 refused   zset  "session ballot" -> until when a vote under it is refused
--   8 evictions hash  session -> how many of its keys were evicted
local state, sessions, terms, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local index, owned, refused, evictions = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(n) return string.format('%.0f', n) end

local lives = {}
local function live(session)
  if lives[session] == nil then
    local expires = redis.call('ZSCORE', sessions, session)
    lives[session] = expires and tonumber(expires) > now
  end
  return lives[session]
end

local function install(session, ttl)
  redis.call('ZADD', sessions, text(now + ttl), session)
  lives[session] = true
end

local function high_water() return math.max(now, tonumber(redis.call('HGET', state, 'token') or 0)) end

local function raise(token)
  local last = tonumber(redis.call('HGET', state, 'token') or 0)
  if token > last then redis.call('HSET', state, 'token', text(token)) end
end

local function server()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '', 0 end
  return string.match(info, 'run_id:(%w+)') or '', tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
end

-- waits_until returns until when the server does not vote, where the clock may have gone back since began: what is over stays over,
-- and a wait that is not begins anew.
local function waits_until(began, till)
  if till == 0 or began <= now and now < till then return till end
  if till <= now then till = 0 else began, till = now, now + till - began end
  redis.call('HSET', state, 'began', text(began), 'until', text(till))
  return till
end

-- epoch returns the generation of the state and until when the server does not vote. If the state was lost or was written in
-- another run of the server, a new generation begins. The server forgets all that it may still have, since that may be old,
-- and does not vote for the longest ttl of a session that it has known; unless the namespace is new as far as the caller
-- knows, on a server that has been up for longer than that, or that the caller knows to be unused.
local function epoch(ttl, new, unused)
  local run, uptime = server()
  local s = redis.call('HMGET', state, 'run', 'gen', 'began', 'until')
  if s[1] == run then return s[2], waits_until(tonumber(s[3]), tonumber(s[4])) end
  for _, term in ipairs(redis.call('HVALS', terms)) do
    ttl = math.max(ttl, tonumber(string.match(term, ' (%d+)$')))
  end
  local till = now + ttl
  if not s[1] and new and (unused or (uptime - 1) * 1000000 > ttl) then till = 0 end
  redis.call('DEL', sessions, terms, holders, index, owned, refused, evictions)
  lives = {}
  local gen = run .. '.' .. text(now)
  redis.call('HSET', state, 'run', run, 'gen', gen, 'began', text(now), 'until', text(till), 'synced', '')
  raise(now)
  return gen, till
end

-- recovering says why the server does not vote: for how many µs it waits, 0 if only for the mark of the others; false if it votes.
local function recovering(till)
  if till > now then return text(till - now) end
  if redis.call('HGET', state, 'synced') ~= '1' then return '0' end
  return false
end

-- standing says why the session cannot act here: the state is not the one that it was installed in, or it has expired.
local function standing(session, gen, number, ttl)
  local present, till = epoch(ttl, false, false)
  if present ~= gen then return 'stale', till end
  local term = redis.call('HGET', terms, session)
  if not term or string.match(term, '^%d+') ~= number or not live(session) then return 'lost', till end
  return nil, till
end

-- summary is what a client is told about the server: generation, run_id, high-water mark, '1' if it has that of the others,
-- and how many keys of the session were evicted.
local function summary(session)
  local s = redis.call('HMGET', state, 'gen', 'run', 'synced')
  return 'ok', s[1], s[2], text(high_water()), s[3], redis.call('HGET', evictions, session) or '0'
end
