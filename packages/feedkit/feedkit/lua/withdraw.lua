-- Takes deleted posts out of a home timeline. What it promises stays true, since the truth has lost them as well; so neither
-- horizon nor epoch changes.
-- KEYS[1] the timeline · ARGV[1] post ids
-- Returns how many were taken out; 0, too, where there is no timeline.
local key = KEYS[1]
local length = timeline_length(key)
if length <= TRAILER then return 0 end
local value = redis.call('GET', key)
local entries = string.sub(value, 1, length - TRAILER)
local taken = 0
for at = 0, #ARGV[1] / ID - 1 do
  local post = id_at(ARGV[1], at, ID)
  local low, high = 0, #entries / ENTRY
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(id_at(entries, middle, ENTRY), post) then low = middle + 1 else high = middle end
  end
  if low < #entries / ENTRY and id_at(entries, low, ENTRY) == post then
    entries = string.sub(entries, 1, low * ENTRY) .. string.sub(entries, (low + 1) * ENTRY + 1)
    taken = taken + 1
  end
end
if taken > 0 then redis.call('SET', key, entries .. string.sub(value, -TRAILER), 'KEEPTTL') end
return taken
