-- Adds to the decayed sums of an author.
-- KEYS[1] the signals · ARGV[1] now · ARGV[2] half-life · ARGV[3] addends · ARGV[4] their life in milliseconds
-- Returns 1, or 0 where nothing is kept of the author any more.
local SIZE = DOUBLE + SIGNALS * FLOAT
local value = read(KEYS[1])
if #value ~= SIZE then value = string.rep('\0', SIZE) end
local now, at = tonumber(ARGV[1]), struct.unpack('>d', value)
if at < 0 then return 0 end
redis.call('SET', KEYS[1], struct.pack('>d', math.max(now, at))
  .. added(string.sub(value, DOUBLE + 1), faded(now - at, tonumber(ARGV[2])), ARGV[3]), 'PX', ARGV[4])
return 1
