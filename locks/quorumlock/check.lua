-- ARGV: session, gen, number, ttl µs, then key, kind, ballot of each
-- Returns {'ok', '1' or '0' for each} | {'stale'} | {'lost'}
local session = ARGV[1]
local why = standing(session, ARGV[2], ARGV[3], tonumber(ARGV[4]))
if why then return {why} end
local answer = {'ok'}
for i = 5, #ARGV, 3 do
  answer[#answer + 1] = text(redis.call('HEXISTS', holders, field_of(ARGV[i], ARGV[i + 1], session, ARGV[i + 2])))
end
return answer
