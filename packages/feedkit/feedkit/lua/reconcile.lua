-- Makes one author's part of a home timeline equal to the truth as it was read.
-- KEYS[1] the timeline · ARGV[1] the epoch that it had when the reconcile read it · ARGV[2] its new epoch
-- ARGV[3] the author · ARGV[4] '1': followed, '0': not · ARGV[5] the id of the author's newest post that was left out, 0
-- if none was · ARGV[6] the author's entries, oldest first · ARGV[7] the most entries that the timeline may have
-- Returns 1, or 0 where the timeline is gone or its epoch another: then the reconcile has to start again.
if timeline_length(KEYS[1]) == 0 then return 0 end
local value = redis.call('GET', KEYS[1])
if string.sub(value, -ID) ~= ARGV[1] then return 0 end
local bytes = #value - TRAILER
local horizon, cut = string.sub(value, bytes + 1, bytes + 8), string.sub(value, bytes + 9, bytes + 16)
local entries
if ARGV[4] == '1' then
  entries = union(string.sub(value, 1, bytes), ARGV[6])
  horizon = greater_of(horizon, ARGV[5])
else
  local kept = {}
  for at = 1, bytes, ENTRY do
    local entry = string.sub(value, at, at + ENTRY - 1)
    if string.sub(entry, ID + 1) ~= ARGV[3] then kept[#kept + 1] = entry end
  end
  entries = table.concat(kept)
end
write_timeline(KEYS[1], entries, horizon, cut, ARGV[2], tonumber(ARGV[7]))
return 1
