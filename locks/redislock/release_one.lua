-- The most common case of release_fast.lua, one key.
if #ARGV == 10 and ARGV[8] == '1' then
  local call, field = redis.call, '=' .. ARGV[9]
  local s = call('HMGET', KEYS[1], 'gen', field)
  local mine = ARGV[10] .. '\n' .. ARGV[1] .. '\n'
  if s[1] == ARGV[2] and s[2] and string.sub(s[2], 1, #mine) == mine then
    call('HDEL', KEYS[1], field)
    call('ZREM', KEYS[5], 'k' .. ARGV[9])
    return {'ok'}
  end
end

