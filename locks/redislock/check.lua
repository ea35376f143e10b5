-- ARGV: session, gen, ttl µs, then key, token of each
-- Returns {'ok', 1 (still held by this session under that token) or 0 for each} | {'stale'} | {'lost'}
local session = ARGV[1]
local why = standing(session, ARGV[2], tonumber(ARGV[3]))
if why then return {why} end
local answer = {'ok'}
for i = 4, #ARGV, 2 do
  answer[#answer + 1] = holds(session, ARGV[i], ARGV[i + 1]) and 1 or 0
end
return answer
