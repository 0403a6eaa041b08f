-- Notes posts that a viewer has just seen; a hidden one is negative.
-- KEYS[1] the seen ones, oldest sight first · ARGV[1] the posts · ARGV[2] the most posts · ARGV[3] its life in milliseconds
-- Returns 1, or 0 where nothing is kept of the viewer any more.
local NOBODY = string.rep('\0', ID)
local value, most = read(KEYS[1]), tonumber(ARGV[2])
if value == NOBODY then return 0 end
if #value % ID ~= 0 then value = '' end

local function negated(id)
  local high, low = struct.unpack('>I4I4', id)
  high, low = 4294967295 - high, 4294967296 - low
  if low == 4294967296 then high, low = high + 1, 0 end
  return struct.pack('>I4I4', high % 4294967296, low)
end
local function is_hidden(id) return string.byte(id) >= 128 end

-- Where an id begins; of a thousand a few are looked for, so it is found by its bytes rather than one after another.
local function start_of(id)
  local start = string.find(value, id, 1, true)
  while start and start % ID ~= 1 do start = string.find(value, id, start + 1, true) end
  return start
end

for place = 0, #ARGV[1] / ID - 1 do
  local id = id_at(ARGV[1], place, ID)
  local other = negated(id)
  local before, before_other = start_of(id), start_of(other)
  if before_other and is_hidden(other) then id = other end
  local start = before or before_other
  if start then value = string.sub(value, 1, start - 1) .. string.sub(value, start + ID) end
  value = value .. id
end
redis.call('SET', KEYS[1], string.sub(value, -most * ID), 'PX', ARGV[3])
return 1
