-- Returns {'ok', run_id or ''} | what memory.lua returns
local info = redis.pcall('INFO', 'server')
return {'ok', type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''}
