-- ARGV: session, ttl µs, '1' if the namespace is new as far as the caller knows, '1' if the server is known to be unused
-- Returns {'ok', gen, run_id or '', '1' unless PUBLISH is forbidden, proof} | {'evicts', policy}
local session, ttl = ARGV[1], tonumber(ARGV[2])
local heard = type(redis.pcall('PUBLISH', inbox .. session, '')) == 'number'
local gen, till = epoch(ttl, ARGV[3] == '1', ARGV[4] == '1')
install(session, ttl)
redis.call('HSET', terms, session, gen .. ' ' .. text(ttl))
reap(till <= now and gen)
return {'ok', gen, redis.call('HGET', state, 'run'), heard and '1' or '', redis.call('HGET', state, 'proof') or ''}
