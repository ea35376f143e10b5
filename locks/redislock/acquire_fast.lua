-- A common case of acquire.lua, without what the others need: no key is held, none is asked for together, and the server is
-- known to grant. In every other case nothing is written here, and the script goes on. KEYS are those of namespace.lua.
do
  local most = 1000 -- keys of a call: the stack is limited
  local fields = {'proof', 'gen', 'until', 'refused', 'token', '@' .. ARGV[1]}
  local keys, common = {}, ARGV[8] == '0' and #ARGV > 8 and #ARGV < 3 * most
  for i = 9, common and #ARGV or 0, 3 do
    keys[#keys + 1] = ARGV[i]
    fields[#fields + 1] = '=' .. ARGV[i]
    common = common and ARGV[i + 1] == '1'
  end
  local state = common and redis.call('HMGET', KEYS[1], unpack(fields)) or {}
  if common and proof == state[1] and state[2] == ARGV[2] and state[3] == '0' then
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    common = state[6] and tonumber(state[6]) > now and tonumber(state[4] or 0) <= now
    for i = 7, #fields do common = common and not state[i] end
    for _, held in ipairs(common and redis.call('HMGET', KEYS[4], unpack(keys)) or {}) do common = common and not held end
    if common then
      local minted = math.max(tonumber(state[5]) + 1, now)
      local token = string.format('%.0f', minted)
      local record = table.concat({token, ARGV[1], ARGV[4], string.format('%.0f', now), '1', ARGV[5], ''}, '\n')
      local values = {'token', token}
      local members = {}
      for i, key in ipairs(keys) do
        values[2 * i + 1], values[2 * i + 2] = fields[6 + i], record .. ARGV[8 + 3 * i]
        members[2 * i - 1], members[2 * i] = 0, 'k' .. key
      end
      redis.call('HSET', KEYS[1], unpack(values))
      if #keys > 16 then
        -- Up to 128 members of at most 64 bytes are kept as a list, which each addition walks through. A longer one ends that.
        local long = string.rep('-', 65)
        redis.call('ZADD', KEYS[5], 0, long)
        redis.call('ZADD', KEYS[5], unpack(members))
        redis.call('ZREM', KEYS[5], long)
      else
        redis.call('ZADD', KEYS[5], unpack(members))
      end
      return {'all', '+' .. token}
    end
  end
end

