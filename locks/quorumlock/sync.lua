-- Brings the high-water mark of a majority of the other servers: from now on this server may vote.
-- ARGV: gen, mark
-- Returns {'ok'} | {'stale'}
if redis.call('HGET', state, 'gen') ~= ARGV[1] then return {'stale'} end
raise(tonumber(ARGV[2]))
redis.call('HSET', state, 'synced', '1')
return {'ok'}
