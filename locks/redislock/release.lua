-- Frees the keys that this session holds under the given token, and no others.
-- ARGV: session, gen, ttl µs, then key, token of each
-- Returns {'ok'} | {'stale'}
local why, granting = standing(ARGV[1], ARGV[2], tonumber(ARGV[3]))
if why == 'stale' then return {why} end
for i = 4, #ARGV, 2 do free(ARGV[i], ARGV[i + 1], ARGV[1], granting) end
return {'ok'}
