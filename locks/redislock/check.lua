-- ARGV: session, gen, ttl µs, then key, token of each
-- Returns {'ok', 1 (still held by this session under that token) or 0 for each} | {'stale'} | {'lost'}
local session = ARGV[1]
local why = wrong(epoch(tonumber(ARGV[3]), false), ARGV[2], session)
if why then return {why} end
local answer = {'ok'}
for i = 4, #ARGV, 2 do
  local token, by = fields(redis.call('HGET', holders, ARGV[i]))
  answer[#answer + 1] = by == session and token == ARGV[i + 1] and 1 or 0
end
return answer
