-- Frees holdings and votes of a session. A ballot may be refused for one ttl: a request for it may still arrive.
-- ARGV: session, ttl µs, then key, kind, ballot, '1' to refuse it, of each
-- Returns {'ok'}
local session, ttl = ARGV[1], tonumber(ARGV[2])
epoch(ttl, false, false) -- first: a new one begins with no ballot refused
for i = 3, #ARGV, 4 do
  drop(field_of(ARGV[i], ARGV[i + 1], session, ARGV[i + 2]))
  if ARGV[i + 3] == '1' then redis.call('ZADD', refused, text(now + ttl), session .. ' ' .. ARGV[i + 2]) end
end
return {'ok'}
