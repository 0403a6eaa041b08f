-- Before the scripts of the ranked view, behind the prelude. Doubles and floats are big-endian.
local DOUBLE, FLOAT, SIGNALS = 8, 4, 6
local SUMS = '>' .. string.rep('f', SIGNALS)

-- What is left after some seconds of what fades by half in each half-life. Clocks may differ: nothing grows by that.
local function faded(seconds, half_life)
  if seconds <= 0 then return 1 end
  return 2 ^ (-seconds / half_life)
end

-- Sums with what is added to them, after they have faded. None falls below 0, and none stays that is no number.
local function added(sums, fade, addends)
  local ours, theirs = { struct.unpack(SUMS, sums) }, { struct.unpack(SUMS, addends) }
  for place = 1, SIGNALS do
    local sum = ours[place] * fade + theirs[place]
    ours[place] = sum > 0 and sum or 0
  end
  return struct.pack(SUMS, unpack(ours, 1, SIGNALS))
end
