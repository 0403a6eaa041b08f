-- Notes posts that a viewer has just seen; a hidden one is negative.
-- KEYS[1] the seen ones, oldest sight first · ARGV[1] the posts · ARGV[2] the most posts · ARGV[3] its life in milliseconds
local value, most = read(KEYS[1]), tonumber(ARGV[2])
if #value % ID ~= 0 then value = '' end

local function negated(id)
  local high, low = struct.unpack('>I4I4', id)
  high, low = 4294967295 - high, 4294967296 - low
  if low == 4294967296 then high, low = high + 1, 0 end
  return struct.pack('>I4I4', high % 4294967296, low)
end
local function is_hidden(id) return string.byte(id) >= 128 end
local function shown(id) return is_hidden(id) and negated(id) or id end

local place_of_post, order = {}, {}
for _, packed in ipairs({ value, ARGV[1] }) do
  for place = 0, #packed / ID - 1 do
    local id = id_at(packed, place, ID)
    local post = shown(id)
    local before = place_of_post[post]
    if before then
      if is_hidden(order[before]) then id = order[before] end
      order[before] = false
    end
    order[#order + 1] = id
    place_of_post[post] = #order
  end
end
local kept = {}
for _, id in ipairs(order) do
  if id then kept[#kept + 1] = id end
end
redis.call('SET', KEYS[1], table.concat(kept, '', math.max(1, #kept - most + 1)), 'PX', ARGV[3])
return 1
