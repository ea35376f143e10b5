-- Round 1: votes for each key that the session may hold, and renews the session here, since the grant will rely on that.
-- ARGV: session, gen, number, ttl µs, owner, then key, kind, ballot, meta of each, and '1' not to vote, only to look
-- Returns {'ok', high_water(), per key '1' voted, or {field, value, µs until it expires, …} of some that exclude it, or '' the key is
--         free, but it was only looked for, or the ballot is refused}
--       | {'recovering', µs} | {'stale'} | {'lost'}
local session, ttl, owner = ARGV[1], tonumber(ARGV[4]), ARGV[5]
local why, till = standing(session, ARGV[2], ARGV[3], ttl)
if why then return {why} end
local wait = recovering(till)
if wait then return {'recovering', wait} end
install(session, ttl)
local some = redis.call('ZCARD', refused) > 0
local answer = {'ok', text(high_water())}
for i = 6, #ARGV, 5 do
  local key, kind, ballot = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local own, outcome = field_of(key, kind, session, ballot), '1'
  if redis.call('HEXISTS', holders, own) == 0 then
    local others = obstacles(key, kind, own)
    if #others > 0 then
      outcome = {}
      for n = 1, math.min(#others, 8) do
        outcome[3 * n - 2], outcome[3 * n - 1], outcome[3 * n] = others[n], redis.call('HGET', holders, others[n]), remaining(others[n])
      end
    elseif ARGV[i + 4] == '1' or some and refuses(session, ballot) then
      outcome = ''
    else
      put(own, table.concat({'0', text(now), owner, ARGV[i + 3]}, '\n'))
    end
  end
  answer[#answer + 1] = outcome
end
return answer
