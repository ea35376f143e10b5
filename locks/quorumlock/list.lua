-- ARGV: lowest and highest field, as ZRANGEBYLEX takes them; how many keys
-- Returns {'ok', '1' if there are more keys, then field, value, µs until it expires of each holding and vote of a live session}
local low, limit = ARGV[1], tonumber(ARGV[3])
local answer, keys, last, left = {'ok', ''}, 0, nil, {}
while true do
  local found = redis.call('ZRANGEBYLEX', index, low, ARGV[2], 'LIMIT', 0, 256)
  local fields, owners = {}, {}
  for _, field in ipairs(found) do
    local session = session_of(field)
    if live(session) then
      local key = string.match(field, '^%S+')
      if key ~= last then
        if keys == limit then
          answer[2] = '1'
          break
        end
        keys, last = keys + 1, key
      end
      fields[#fields + 1], owners[#owners + 1] = field, session
    end
  end
  local values = #fields > 0 and redis.call('HMGET', holders, unpack(fields))
  for n, field in ipairs(fields) do
    left[owners[n]] = left[owners[n]] or remaining(field) -- once each: ZSCORE formats a double
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = field, values[n], left[owners[n]]
  end
  if answer[2] == '1' or #found < 256 then return answer end
  low = '(' .. found[#found]
end
