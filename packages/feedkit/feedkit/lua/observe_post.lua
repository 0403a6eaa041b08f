-- Adds to the sums of a post.
-- KEYS[1] the signals · ARGV[1] now · ARGV[2] half-life · ARGV[3] addends · ARGV[4] their life in milliseconds
local TRAITS, SUMS_SIZE = 20, SIGNALS * FLOAT
local SIZE = TRAITS + DOUBLE + 2 * SUMS_SIZE
local value = read(KEYS[1])
if #value ~= SIZE then value = string.rep('\0', SIZE) end
local now, at = tonumber(ARGV[1]), struct.unpack('>d', value, TRAITS + 1)
local sums = string.sub(value, TRAITS + DOUBLE + 1, TRAITS + DOUBLE + SUMS_SIZE)
local recent = string.sub(value, TRAITS + DOUBLE + SUMS_SIZE + 1)
redis.call('SET', KEYS[1], string.sub(value, 1, TRAITS)
  .. struct.pack('>d', math.max(now, at))
  .. added(sums, 1, ARGV[3])
  .. added(recent, faded(now - at, tonumber(ARGV[2])), ARGV[3]), 'PX', ARGV[4])
return 1
