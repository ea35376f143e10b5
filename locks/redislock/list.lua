-- Reads what is held by key, from the index, so many keys as limit. It writes nothing.
-- ARGV: lowest and highest member of the index, as ZRANGEBYLEX takes them; limit
-- Returns {'ok', then of each key: its name, µs until its session expires and record of each holding of a live session, and the
-- same of each place, with a blank before its name, and record: number\nsession\nacquisition\nsince\nkind\nowner\nmeta}: so many keys as limit
local low, limit = ARGV[1], tonumber(ARGV[3])
local answer, keys, last = {'ok'}, 0, nil

local function add(name, session, text_of)
  answer[#answer + 1] = name
  answer[#answer + 1] = text(remaining(session))
  answer[#answer + 1] = text_of
end

local function waiters(key)
  if not key then return end
  for _, member in ipairs(below(queue, '[' .. key .. ' ', '(' .. key .. '!', -1)) do
    local number, session, acquisition = string.match(member, '^%S+ (%S+) (%S+) (%S+)$')
    local _, asked = place(key, session, acquisition)
    if live(session) and asked then
      local since, rest = string.match(asked, '^(%d+)\n(.*)$')
      add(' ' .. key, session, table.concat({number, session, acquisition, since, rest}, '\n'))
    end
  end
end

while true do
  local found = below(index, low, ARGV[2], limit)
  for _, member in ipairs(found) do
    local field = string.sub(member, 2)
    local value = present(field)
    local _, by = fields(value)
    if by and live(by) then
      local key = string.match(field, '^%S+')
      if key ~= last then
        waiters(last)
        if keys == limit then return answer end
        keys, last = keys + 1, key
      end
      add(key, by, value)
    end
  end
  if #found < limit then
    waiters(last)
    return answer
  end
  low = '(' .. found[#found]
end
