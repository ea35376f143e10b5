-- ARGV: lowest and highest field of holders, as ZRANGEBYLEX takes them; limit
-- Returns {'ok', then field, record of each holding of a live session: so many as limit, and the rest of the last key}
local low, limit = ARGV[1], tonumber(ARGV[3])
local answer, last = {'ok'}, nil
while true do
  local found = below(index, low, ARGV[2], limit)
  for _, field in ipairs(found) do
    local value = redis.call('HGET', holders, field)
    local _, by = fields(value)
    if by and live(by) then
      local key = string.match(field, '^%S+')
      if #answer > 2 * limit and key ~= last then return answer end
      last = key
      answer[#answer + 1] = field
      answer[#answer + 1] = value
    end
  end
  if #found < limit then return answer end
  low = '(' .. found[#found]
end
