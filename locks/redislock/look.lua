-- Says what became of places, after it has freed what dead sessions have of their keys.
-- ARGV: session, gen, ttl µs, then acquisition, key of each
-- Returns {'ok', per place: '+token' granted | '~number since' and behind a line feed shown(), queued | '0' there is no such place}
--       | {'stale'} | {'lost'}
local session = ARGV[1]
local why, granting = standing(session, ARGV[2], tonumber(ARGV[3]))
if why then return {why} end
local answer = {'ok'}
for i = 4, #ARGV, 2 do
  local key = ARGV[i + 1]
  if granting then settle(key, granting) else bring(key) end
  local number, asked, token = place(key, session, ARGV[i])
  answer[#answer + 1] = token and '+' .. token or number and waiting(key, number, string.match(asked, '^%d+')) or '0'
end
return answer
