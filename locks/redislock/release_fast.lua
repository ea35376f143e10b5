-- The common case of release.lua, without what the others need: this session has the keys as acquire_fast.lua granted them, so
-- none waits for them. Nothing is granted, and it does not matter which run of the server this is. In every other case nothing is
-- written here, and the script goes on. KEYS are those of namespace.lua.
do
  local fields, members, common = {'gen'}, {}, #ARGV < 2000 -- the stack is limited
  for i = 4, common and #ARGV or 0, 2 do
    fields[#fields + 1], members[#members + 1] = '=' .. ARGV[i], 'k' .. ARGV[i]
  end
  local state = common and redis.call('HMGET', KEYS[1], unpack(fields)) or {}
  common = state[1] == ARGV[2] and #fields > 1
  for i = 2, common and #fields or 0 do
    local mine = ARGV[2 * i + 1] .. '\n' .. ARGV[1] .. '\n'
    common = common and state[i] and string.sub(state[i], 1, #mine) == mine
  end
  if common then
    redis.call('HDEL', KEYS[1], unpack(fields, 2))
    redis.call('ZREM', KEYS[5], unpack(members))
    return {'ok'}
  end
end

