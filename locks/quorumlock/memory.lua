-- Ends with {'evicts', policy} where the server may drop locks to save memory, and with {'replica'} where it is one: it
-- would vote with the voice of its master. Policies volatile-* drop keys that have a TTL, and no key of a lock has one.
local memory = redis.pcall('INFO', 'memory')
if type(memory) == 'string' then
  local policy = string.match(memory, 'maxmemory_policy:([%w-]+)') or 'noeviction'
  if string.match(policy, '^allkeys') and string.match(memory, 'maxmemory:(%d+)') ~= '0' then return {'evicts', policy} end
end
local replication = redis.pcall('INFO', 'replication')
if type(replication) == 'string' and string.match(replication, 'role:slave') then return {'replica'} end
