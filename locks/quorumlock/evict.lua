-- Frees what any live session holds of a key under a token, or under a ballot: then the token may not have arrived here. The
-- ballot is refused for one ttl, since the holder may be about to bring the key here.
-- ARGV: ttl µs, key, token, "session ballot" or ''
-- Returns {'ok', "session ballot" of what was freed, or ''} | {'recovering', µs}
local ttl, key, token, by = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local _, till = epoch(ttl, false, false)
local wait = recovering(till)
if wait then return {'recovering', wait} end
local function refuse(ballot)
  local term = redis.call('HGET', terms, string.match(ballot, '^%S+')) or ''
  redis.call('ZADD', refused, text(now + math.max(ttl, tonumber(string.match(term, ' (%d+)$') or 0))), ballot)
end
if by ~= '' then refuse(by) end
for _, field in ipairs(fields_of(key)) do
  local session, ballot = session_of(field)
  local named = session .. ' ' .. ballot
  if live(session) and (token_of(field) == token or named == by) then
    drop(field)
    refuse(named)
    redis.call('HINCRBY', evictions, session, 1)
    return {'ok', named}
  end
end
return {'ok', ''}
