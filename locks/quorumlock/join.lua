-- Installs a session that lives on a majority of the servers, with all that it holds, where it is not known.
-- ARGV: session, ttl µs, number, then key, kind, ballot, value of each holding
-- Returns {summary(), per holding '1' or '0'} | {'lost'} a later call was first
local session, ttl, number = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local gen, till = epoch(ttl, false, false)
local term = redis.call('HGET', terms, session)
local last = term and tonumber(string.match(term, '^%d+')) or 0
if last > number then return {'lost'} end
-- Peers with a ttl as long as this one may need as long to come back.
local began = tonumber(redis.call('HGET', state, 'began'))
if till > now and began + ttl > till then redis.call('HSET', state, 'until', text(began + ttl)) end
if last < number then wipe(session, -1) end
install(session, ttl)
redis.call('HSET', terms, session, text(number) .. ' ' .. text(ttl))
return bring(session, 4, {summary(session)})
