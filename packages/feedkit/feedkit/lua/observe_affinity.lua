-- Adds to the affinity of a viewer to authors.
-- KEYS[1] the affinity · ARGV[1] now · ARGV[2] half-life · ARGV[3] authors, ascending, each with what is added
-- ARGV[4] the most authors · ARGV[5] its life in milliseconds
local WIDTH = ID + FLOAT
local value = read(KEYS[1])
if #value % WIDTH ~= DOUBLE then value = string.rep('\0', DOUBLE) end
local now, at = tonumber(ARGV[1]), struct.unpack('>d', value)
local fade, most = faded(now - at, tonumber(ARGV[2])), tonumber(ARGV[4])
local ours, theirs = string.sub(value, DOUBLE + 1), ARGV[3]
local pairs_of, i, j, n, m = {}, 0, 0, #ours / WIDTH, #theirs / WIDTH
while i < n or j < m do
  local our = i < n and id_at(ours, i, WIDTH)
  local their = j < m and id_at(theirs, j, WIDTH)
  local author, score = our, 0
  if not our or (their and less(their, our)) then author = their end
  if author == our then
    score = struct.unpack('>f', ours, i * WIDTH + ID + 1) * fade
    i = i + 1
  end
  if author == their then
    score = score + struct.unpack('>f', theirs, j * WIDTH + ID + 1)
    j = j + 1
  end
  pairs_of[#pairs_of + 1] = { author, score, #pairs_of }
end
if #pairs_of > most then
  table.sort(pairs_of, function(a, b)
    local x, y = math.abs(a[2]), math.abs(b[2])
    if x ~= y then return x > y end
    return a[3] < b[3]
  end)
  for place = #pairs_of, most + 1, -1 do pairs_of[place] = nil end
  table.sort(pairs_of, function(a, b) return a[3] < b[3] end)
end
local parts = { struct.pack('>d', math.max(now, at)) }
for _, pair in ipairs(pairs_of) do parts[#parts + 1] = pair[1] .. struct.pack('>f', pair[2]) end
redis.call('SET', KEYS[1], table.concat(parts), 'PX', ARGV[5])
return 1
