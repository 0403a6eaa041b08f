-- Before the scripts of the ranked view, behind the prelude. Doubles and floats are big-endian.
local DOUBLE, FLOAT, SIGNALS = 8, 4, 6

-- What is left after some seconds of what fades by half in each half-life. Clocks may differ: nothing grows by that.
local function faded(seconds, half_life)
  if seconds <= 0 then return 1 end
  return 2 ^ (-seconds / half_life)
end

-- Sums with what is added to them, after they have faded; none falls below 0.
local function added(sums, fade, addends)
  local parts = {}
  for place = 0, SIGNALS - 1 do
    local start = place * FLOAT + 1
    local sum = struct.unpack('>f', sums, start) * fade + struct.unpack('>f', addends, start)
    parts[#parts + 1] = struct.pack('>f', math.max(sum, 0))
  end
  return table.concat(parts)
end
