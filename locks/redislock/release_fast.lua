-- The common case of a release, without what the others need: this session has the keys as acquire_fast.lua granted them, so
-- none waits for them, and none is asked for. Nothing is granted, and it does not matter which run of the server this is. In every
-- other case nothing is written here, and the script goes on. KEYS and ARGV are those of namespace.lua and acquire.lua.
do
  local fields, members = {'gen'}, {}
  local common = #ARGV == 8 + 2 * tonumber(ARGV[8]) and #ARGV < 2000 -- the stack is limited
  for i = 9, common and #ARGV or 0, 2 do
    fields[#fields + 1], members[#members + 1] = '=' .. ARGV[i], 'k' .. ARGV[i]
  end
  local state = common and redis.call('HMGET', KEYS[1], unpack(fields)) or {}
  common = state[1] == ARGV[2] and #fields > 1
  for i = 2, common and #fields or 0 do
    local mine = ARGV[2 * i + 6] .. '\n' .. ARGV[1] .. '\n'
    common = common and state[i] and string.sub(state[i], 1, #mine) == mine
  end
  if common then
    redis.call('HDEL', KEYS[1], unpack(fields, 2))
    redis.call('ZREM', KEYS[5], unpack(members))
    return {'ok'}
  end
end

