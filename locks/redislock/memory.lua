-- Ends with {'evicts', policy} where the server may drop locks to save memory
local memory = redis.pcall('INFO', 'memory')
if type(memory) == 'string' then
  local policy = string.match(memory, 'maxmemory_policy:([%w-]+)') or 'noeviction'
  if policy ~= 'noeviction' and string.match(memory, 'maxmemory:(%d+)') ~= '0' then return {'evicts', policy} end
end
