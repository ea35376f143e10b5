-- Round 2: writes the token to the votes that are still there, and renews the session here.
-- ARGV: session, gen, number, ttl µs, token, then key, kind, ballot of each
-- Returns {'ok', per key '1' or '0' there is no such vote} | {'stale'} | {'lost'}
local session, ttl, token = ARGV[1], tonumber(ARGV[4]), ARGV[5]
local why = standing(session, ARGV[2], ARGV[3], ttl)
if why then return {why} end
install(session, ttl)
local answer = {'ok'}
for i = 6, #ARGV, 3 do
  local own = field_of(ARGV[i], ARGV[i + 1], session, ARGV[i + 2])
  local value = redis.call('HGET', holders, own)
  if value then
    local earlier, rest = string.match(value, '^(%d+)(.*)$')
    if tonumber(token) > tonumber(earlier) then redis.call('HSET', holders, own, token .. rest) end -- else a later call for it was here first
    raise(tonumber(token))
  end
  answer[#answer + 1] = value and '1' or '0'
end
return answer
