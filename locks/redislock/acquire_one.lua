-- The most common case of acquire_fast.lua, one key: nothing is counted and no list is made. KEYS and ARGV are those of namespace.lua and
-- acquire.lua.
if #ARGV == 11 and ARGV[8] == '0' and ARGV[10] == '1' then
  local call, session, key = redis.call, ARGV[1], ARGV[9]
  local s = call('HMGET', KEYS[1], 'proof', 'gen', 'until', 'refused', 'token', '@' .. session, '=' .. key)
  if proof == s[1] and s[2] == ARGV[2] and s[3] == '0' and s[6] and not s[7] then
    local time = call('TIME')
    local now, since = time[1] * 1000000 + time[2], time[1] .. string.sub(1000000 + time[2], 2)
    if tonumber(s[6]) > now and tonumber(s[4] or 0) <= now and call('HEXISTS', KEYS[4], key) == 0 then
      local token, last = since, tonumber(s[5])
      if last >= now then token = string.format('%.0f', last + 1) end
      call('HSET', KEYS[1], 'token', token, '=' .. key,
        token .. '\n' .. session .. '\n' .. ARGV[4] .. '\n' .. since .. '\n1\n' .. ARGV[5] .. '\n' .. ARGV[11])
      call('ZADD', KEYS[5], 0, 'k' .. key)
      return {'all', '+' .. token}
    end
  end
end

