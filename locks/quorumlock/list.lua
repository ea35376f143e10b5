-- ARGV: lowest and highest field, as ZRANGEBYLEX takes them; how many keys
-- Returns {'ok', '1' if there are more keys, then field, value, µs until it expires of each holding and vote of a live session}
local low, limit = ARGV[1], tonumber(ARGV[3])
local answer, keys, last = {'ok', ''}, 0, nil
while true do
  local found = redis.call('ZRANGEBYLEX', index, low, ARGV[2], 'LIMIT', 0, 256)
  for _, field in ipairs(found) do
    local session = session_of(field)
    if live(session) then
      local key = string.match(field, '^%S+')
      if key ~= last then
        if keys == limit then
          answer[2] = '1'
          return answer
        end
        keys, last = keys + 1, key
      end
      answer[#answer + 1] = field
      answer[#answer + 1] = redis.call('HGET', holders, field)
      answer[#answer + 1] = remaining(field)
    end
  end
  if #found < 256 then return answer end
  low = '(' .. found[#found]
end
