-- Keeps an order of a viewer's posts, and the latest ones before it.
-- KEYS[1] the orders, newest first · ARGV[1] the order with its frame · ARGV[2] the most orders · ARGV[3] their life
local HEAD = 12
local value, most, kept = read(KEYS[1]), tonumber(ARGV[2]), 0
for _ = 2, most do
  if kept + HEAD > #value then break end
  local stop = kept + HEAD + struct.unpack('>I4', value, kept + ID + 1)
  -- Only what is whole: anything else was not written here.
  if stop > #value then break end
  kept = stop
end
redis.call('SET', KEYS[1], ARGV[1] .. string.sub(value, 1, kept), 'PX', ARGV[3])
return 1
