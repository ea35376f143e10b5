-- ARGV: lowest and highest key, as ZRANGEBYLEX takes them; limit
-- Returns {'ok', then key, value (see holders) of each key with a live holder}
local low, limit = ARGV[1], tonumber(ARGV[3])
local answer = {'ok'}
while true do
  local keys = redis.call('ZRANGEBYLEX', index, low, ARGV[2], 'LIMIT', 0, limit)
  for _, key in ipairs(keys) do
    local held = redis.call('HGET', holders, key)
    local _, by = fields(held)
    if by and live(by) then
      answer[#answer + 1] = key
      answer[#answer + 1] = held
      if #answer > 2 * limit then return answer end
    end
  end
  if #keys < limit then return answer end
  low = '(' .. keys[#keys]
end
