-- Notes the traits of a post.
-- KEYS[1] the signals · ARGV[1] the traits · ARGV[2] their life in milliseconds where there was nothing
local TRAITS, SIZE = 20, 20 + DOUBLE + 2 * SIGNALS * FLOAT
local value = read(KEYS[1])
if #value == SIZE then
  redis.call('SET', KEYS[1], ARGV[1] .. string.sub(value, TRAITS + 1), 'KEEPTTL')
else
  redis.call('SET', KEYS[1], ARGV[1] .. string.rep('\0', SIZE - TRAITS), 'PX', ARGV[2])
end
return 1
