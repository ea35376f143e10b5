-- Renews the session, and says whether something that it held may be gone. An eviction is told until a later renewal says that
-- it was heard: an answer may be lost.
-- ARGV: session, gen, ttl µs, the last eviction that was heard, then key, token of a sample of what it holds
-- Returns {'ok', the last eviction or '', 1 if one of the sample is not held, else 0} | {'stale'} | {'lost'}
local session, ttl, heard = ARGV[1], tonumber(ARGV[3]), ARGV[4]
local why, granting = standing(session, ARGV[2], ttl)
if why then return {why} end
install(session, ttl)
reap(granting)
local evicted = redis.call('HGET', state, '~' .. session) or ''
if evicted ~= '' and evicted == heard then
  redis.call('HDEL', state, '~' .. session)
  evicted = ''
end
local gone = 0
for i = 5, #ARGV, 2 do
  if not holds(session, ARGV[i], ARGV[i + 1]) then gone = 1 end
end
return {'ok', evicted, gone}
