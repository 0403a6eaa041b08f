-- Ends a rebuild: adds the newest entries of the truth and says how far down the timeline is complete now.
-- KEYS[1] the timeline · ARGV[1] the epoch that it had when the rebuild read it · ARGV[2] its new epoch
-- ARGV[3] the id of the newest post that was left out, 0 if none was · ARGV[4] entries, oldest first · ARGV[5] the most
-- entries that it may have
-- Returns 1, or 0 where the timeline is gone or its epoch another: then the rebuild has to start again.
if timeline_length(KEYS[1]) == 0 then return 0 end
local value = redis.call('GET', KEYS[1])
if string.sub(value, -ID) ~= ARGV[1] then return 0 end
local bytes = #value - TRAILER
local cut = string.sub(value, bytes + 9, bytes + 16)
local entries = union(string.sub(value, 1, bytes), ARGV[4])
-- What was trimmed since the truth was read may be missing from what was read, hence the cut.
write_timeline(KEYS[1], entries, greater_of(ARGV[3], cut), cut, ARGV[2], tonumber(ARGV[5]))
return 1
