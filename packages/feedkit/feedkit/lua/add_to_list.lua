-- Adds a post to an author's `own` or `recents`. It never creates the key; a lease is deleted, because whoever holds it
-- may have read the truth before this post was in it.
-- KEYS[1] the list · ARGV[1] the post id · ARGV[2] the most posts that it may have
-- Returns 1, or 0 where there is no list.
local value = read(KEYS[1])
if value == '' then return 0 end
if string.sub(value, 1, 1) ~= 'V' or #value < 1 + ID or #value % ID ~= 1 then
  redis.call('DEL', KEYS[1])
  return 0
end
local added, most = ARGV[1], tonumber(ARGV[2])
local horizon, ids = string.sub(value, 2, 9), string.sub(value, 10)
-- At or below the horizon nothing is promised.
if not less(horizon, added) then return 1 end
local place, count = 0, #ids / ID
while place < count and less(added, id_at(ids, place, ID)) do place = place + 1 end
if place < count and id_at(ids, place, ID) == added then return 1 end
ids = string.sub(ids, 1, place * ID) .. added .. string.sub(ids, place * ID + 1)
if count + 1 > most then
  horizon = id_at(ids, most, ID)
  ids = string.sub(ids, 1, most * ID)
end
redis.call('SET', KEYS[1], 'V' .. horizon .. ids, 'KEEPTTL')
return 1
