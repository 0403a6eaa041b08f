-- Adds entries to a home timeline and trims it. A push never creates a timeline, and adds even at or below the horizon:
-- a rebuild under way may be about to lower it.
-- KEYS[1] the timeline · ARGV[1] entries, oldest first · ARGV[2] the most entries that it may have
-- A history, all that somebody wrote and that was not pushed, comes with more:
-- ARGV[3] the id of its newest post that was left out, 0 if none was; the horizon rises to it
-- ARGV[4] the timeline's new epoch. Who read the truth before the history was read has to read it again
-- ARGV[5] the epoch of a timeline that lacks no more of the history than these entries; absent: of any timeline
-- Returns 1, or 0 where there is no timeline, or another one.
local key, added, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local length = timeline_length(key)
if length == 0 then return 0 end
local bytes = length - TRAILER
local trailer = redis.call('GETRANGE', key, bytes, -1)
local horizon, cut, epoch = string.sub(trailer, 1, 8), string.sub(trailer, 9, 16), string.sub(trailer, 17)
if ARGV[5] and epoch ~= ARGV[5] then return 0 end
if ARGV[4] then
  horizon, epoch = greater_of(horizon, ARGV[3]), ARGV[4]
  -- Whoever is about to lower the horizon has to begin again by this epoch, and reads the whole truth then.
  local first = place_of(added, horizon, 0)
  if first < #added / ENTRY and id_at(added, first, ENTRY) == horizon then first = first + 1 end
  added = slice(added, first, #added / ENTRY)
end

local last = bytes > 0 and redis.call('GETRANGE', key, bytes - ENTRY, bytes - ENTRY + ID - 1)
local entries
if bytes == 0 then
  entries = added
elseif added ~= '' and less(last, id_at(added, 0, ENTRY)) then
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
