-- What all scripts of a namespace share; it is put in front of each. A script sees one moment of
-- the server: now, in µs. KEYS, all with the namespace's hash tag:
--   1 state     hash  run, gen, began, until (0: granting), proof: see epoch(); token: the high-water mark;
--                     number: of the last place in a queue; refused: until when (µs) an acquisition may be abandoned;
--                     "=key": the record of a key that acquire_fast.lua has granted, see queue.lua
--                     swept: where the index is to be looked at next for such keys of sessions that have ended, see reap()
--                     "@session": when it expires, as in sessions: to read a score takes four times as long
--                     "~session": the last eviction of something that it held
--   2 sessions  zset  session -> when it expires, in µs of the server's clock
--   3 terms     hash  session -> "gen ttl" it was last installed with
--   4 holders   hash  what is held by others: see queue.lua
--   5 index     zset  in lexical order, by key: "kfield" of each record, also of those in state; by session: "ssession field"
--                     of each record in holders, and "ssession|acquisition key" of what waits
--   6 queue     zset  "key number session acquisition" of what waits, in lexical order
--   7 places    hash  "session acquisition key" -> "number\nsince\nkind\nowner\nmeta" while it waits;
--                     "+token" once it holds together with others
--   8 abandoned zset  "session acquisition" -> until when (µs) nothing is granted under it
local state, sessions, terms, holders = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local index, queue, places, abandoned = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local inbox = string.sub(state, 1, -6) .. 'inbox:' -- and a session: the channel that its grants are published on

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(n) return string.format('%.0f', n) end

-- remaining is how long a session lasts if it is not renewed, in µs; at most 0 if it has ended.
local lasts = {}
local function remaining(session)
  if lasts[session] == nil then
    local expires = redis.call('HGET', state, '@' .. session)
    lasts[session] = (expires and tonumber(expires) or now) - now
  end
  return lasts[session]
end

local function live(session) return remaining(session) > 0 end

-- The high-water mark is never lower than the clock nor than a token it has been shown.
local function raise(token)
  local last = tonumber(redis.call('HGET', state, 'token') or 0)
  token = math.max(last, token)
  redis.call('HSET', state, 'token', text(token))
  return token
end

local function server()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '', 0 end
  return string.match(info, 'run_id:(%w+)') or '', tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
end

-- promoted says whether this server once was a replica: what it lacks may have been elsewhere.
local function promoted()
  local info = redis.pcall('INFO', 'replication')
  return type(info) ~= 'string' or not string.match(info, 'master_replid2:0+\r')
end

-- rest returns until when nothing may be granted, where the clock may have gone back since began:
-- what is over stays over, and a wait that is not begins anew.
local function rest(began, till)
  if till == 0 or began <= now and now < till then return till end
  if till <= now then till = 0 else began, till = now, now + till - began end
  redis.call('HSET', state, 'began', text(began), 'until', text(till))
  return till
end

-- newer is the proof in the state, where it is not that of this script.
local newer

-- epoch returns the generation of the state and until when (µs) nothing may be granted. If the
-- state was lost or belongs to another run of the server, a new generation begins, and nothing is
-- granted for the longest ttl that a forgotten session may have; unless the namespace is new, as
-- far as the caller knows, on a server that has been up for longer than that, or that the caller knows to be unused.
local function epoch(ttl, new, unused)
  local s = redis.call('HMGET', state, 'run', 'gen', 'began', 'until', 'proof')
  if proof and s[5] == proof then return s[2], rest(tonumber(s[3]), tonumber(s[4])) end
  local run, uptime = server()
  if s[1] == run then
    newer = s[5] or ''
    if proof and (newer == '' or newer == gone()) then
      newer = proof
      redis.call('HSET', state, 'proof', proof)
    end
    return s[2], rest(tonumber(s[3]), tonumber(s[4]))
  end
  for _, term in ipairs(redis.call('HVALS', terms)) do
    ttl = math.max(ttl, tonumber(string.match(term, ' (%d+)$')))
  end
  local till = now + ttl
  if not s[1] and new and (unused or (uptime - 1) * 1000000 > ttl) and not promoted() then till = 0 end
  local gen = run .. '.' .. text(now)
  -- Redis before 7 has no such number, and gives its scripts to replicas and snapshots.
  local provable = run ~= '' and redis.REDIS_VERSION_NUM
  redis.call('HSET', state, 'run', run, 'gen', gen, 'began', text(now), 'until', text(till), 'proof', provable and '' or 'none')
  raise(now)
  return gen, till
end

-- grace says how long nothing is granted yet, in µs, and behind a blank why, as waitFor reads it: for how many seconds the
-- server has been up, where it was so young when the generation began that this alone is why.
local function grace(ttl, till)
  local run, uptime = server()
  local began = tonumber(redis.call('HGET', state, 'began'))
  local young = run ~= '' and (uptime - 1) * 1000000 - (now - began) <= ttl
  return text(till - now) .. ' ' .. (young and text(uptime) or '')
end

-- standing says why the session cannot act: the state is not the one it was installed in, or its time is over; and
-- whether its call may grant: the generation if so.
local function standing(session, gen, ttl)
  local present, till = epoch(ttl, false)
  if present ~= gen then return 'stale', false end
  if not live(session) then return 'lost', till <= now and gen end
  return nil, till <= now and gen
end

local function install(session, ttl)
  local expires = text(now + ttl)
  redis.call('ZADD', sessions, expires, session)
  redis.call('HSET', state, '@' .. session, expires)
end

