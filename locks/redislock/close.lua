-- Ends a session. It names what it holds: keys that acquire_fast.lua has granted are not listed by session. One that it does not
-- know of, since an answer was lost, is free to all who ask, and swept once another session has expired.
-- ARGV: session, gen or '', ttl µs, then key, token of each holding
-- Returns {'ok'}
local session = ARGV[1]
local _, granting = standing(session, ARGV[2], tonumber(ARGV[3]))
wipe(session, -1, granting)
for i = 4, #ARGV, 2 do free(ARGV[i], ARGV[i + 1], session, granting) end
unregister(session)
return {'ok'}
