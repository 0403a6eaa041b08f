-- Adds to the affinity of a viewer to authors.
-- KEYS[1] the affinity · ARGV[1] now · ARGV[2] half-life · ARGV[3] authors, each with what is added · ARGV[4] the most
-- authors · ARGV[5] its life in milliseconds
-- Returns 1, or 0 where nothing is kept of the viewer any more.
local WIDTH, MOST_HALF_LIVES = ID + FLOAT, 16
local value, added_ones, half_life, most = read(KEYS[1]), ARGV[3], tonumber(ARGV[2]), tonumber(ARGV[4])
local now = tonumber(ARGV[1])
if #value % WIDTH ~= DOUBLE then value = struct.pack('>d', now) end
local at, entries = struct.unpack('>d', value), string.sub(value, DOUBLE + 1)
if at < 0 then return 0 end

local function score_at(place) return struct.unpack('>f', entries, place * WIDTH + ID + 1) end

-- All scores are of one time, which stays as long as it can: what is added later counts for more instead, so that only
-- its own authors are written.
if now - at > MOST_HALF_LIVES * half_life then
  local fade, parts = faded(now - at, half_life), {}
  for place = 0, #entries / WIDTH - 1 do
    parts[#parts + 1] = id_at(entries, place, WIDTH) .. struct.pack('>f', score_at(place) * fade)
  end
  at, entries = now, table.concat(parts)
end
local weight = 1 / faded(now - at, half_life)

for item = 0, #added_ones / WIDTH - 1 do
  local author = id_at(added_ones, item, WIDTH)
  local score = struct.unpack('>f', added_ones, item * WIDTH + ID + 1) * weight
  local low, high = 0, #entries / WIDTH
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(id_at(entries, middle, WIDTH), author) then low = middle + 1 else high = middle end
  end
  local rest = low
  if low < #entries / WIDTH and id_at(entries, low, WIDTH) == author then
    score, rest = score + score_at(low), low + 1
  end
  entries = string.sub(entries, 1, low * WIDTH) .. author .. struct.pack('>f', score)
    .. string.sub(entries, rest * WIDTH + 1)
end

local over = #entries / WIDTH - most
if over > 0 then
  local distances, sorted = {}, {}
  for place = 0, most + over - 1 do
    distances[place] = math.abs(score_at(place))
    sorted[place + 1] = distances[place]
  end
  table.sort(sorted)
  local limit, kept = sorted[over], {}
  -- Of those that are equally near as many go as have to.
  local equals = over
  while equals > 0 and sorted[over - equals + 1] < limit do equals = equals - 1 end
  for place = 0, most + over - 1 do
    local distance = distances[place]
    if distance == limit and equals > 0 then
      equals = equals - 1
    elseif distance >= limit then
      kept[#kept + 1] = string.sub(entries, place * WIDTH + 1, (place + 1) * WIDTH)
    end
  end
  entries = table.concat(kept)
end
redis.call('SET', KEYS[1], struct.pack('>d', at) .. entries, 'PX', ARGV[5])
return 1
