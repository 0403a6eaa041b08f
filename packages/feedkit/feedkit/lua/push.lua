-- Adds entries to a home timeline and trims it. A push never creates a timeline, and adds even at or below the horizon:
-- a rebuild under way may be about to lower it.
-- KEYS[1] the timeline · ARGV[1] entries, oldest first · ARGV[2] the most entries that it may have
-- ARGV[3] the id of the newest post that belongs to these entries and was left out; absent if none was
-- Returns 1, or 0 where there is no timeline.
local key, added, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local length = timeline_length(key)
if length == 0 then return 0 end
local bytes = length - TRAILER
local trailer = redis.call('GETRANGE', key, bytes, -1)
local horizon, cut, epoch = string.sub(trailer, 1, 8), string.sub(trailer, 9, 16), string.sub(trailer, 17)
if ARGV[3] then horizon = greater_of(horizon, ARGV[3]) end

local last = bytes > 0 and redis.call('GETRANGE', key, bytes - ENTRY, bytes - ENTRY + ID - 1)
local entries
if bytes == 0 then
  entries = added
elseif less(last, id_at(added, 0, ENTRY)) then
  -- The usual case: what is new is newer than all that there is, so only as much is copied as is kept.
  local over = (bytes + #added) / ENTRY - most
  local from = 0
  if over > 0 and over * ENTRY <= bytes then
    local highest_trimmed = redis.call('GETRANGE', key, (over - 1) * ENTRY, (over - 1) * ENTRY + ID - 1)
    horizon = greater_of(horizon, highest_trimmed)
    cut = greater_of(cut, highest_trimmed)
    from = over * ENTRY
  end
  entries = (from < bytes and redis.call('GETRANGE', key, from, bytes - 1) or '') .. added
else
  entries = union(redis.call('GETRANGE', key, 0, bytes - 1), added)
end
write_timeline(key, entries, horizon, cut, epoch, most)
return 1
