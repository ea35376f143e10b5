-- ARGV: session, gen, number, ttl µs, then key, kind, ballot of each holding that is looked for
-- Returns {summary(), '1' or '0' for each that is looked for} | {'stale'} | {'lost'}
local session, ttl = ARGV[1], tonumber(ARGV[4])
local why = standing(session, ARGV[2], ARGV[3], ttl)
if why then return {why} end
install(session, ttl)
reap()
local answer = {summary(session)}
for i = 5, #ARGV, 3 do
  answer[#answer + 1] = text(redis.call('HEXISTS', holders, field_of(ARGV[i], ARGV[i + 1], session, ARGV[i + 2])))
end
return answer
