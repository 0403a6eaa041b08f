-- Notes posts that a viewer has just seen; a hidden one is negative.
-- KEYS[1] the seen ones, oldest sight first · ARGV[1] the posts · ARGV[2] the most posts · ARGV[3] its life in milliseconds
-- Returns 1, or 0 where nothing is kept of the viewer any more.
local NOBODY = string.rep('\0', ID)
local value, most = read(KEYS[1]), tonumber(ARGV[2])
if value == NOBODY then return 0 end
if #value % ID ~= 0 then value = '' end

local function negated(id)
  local high, low = struct.unpack('>I4I4', id)
  high, low = 4294967295 - high, 4294967296 - low
  if low == 4294967296 then high, low = high + 1, 0 end
  return struct.pack('>I4I4', high % 4294967296, low)
end

-- Takes an id out, and tells whether it was there. Of a thousand a few are looked for, so it is found by its bytes.
local function taken_out(id)
  local start = string.find(value, id, 1, true)
  while start and start % ID ~= 1 do start = string.find(value, id, start + 1, true) end
  if not start then return false end
  value = string.sub(value, 1, start - 1) .. string.sub(value, start + ID)
  return true
end

local fresh, place_of = {}, {}
for item = 0, #ARGV[1] / ID - 1 do
  local id = id_at(ARGV[1], item, ID)
  local is_hidden, other = string.byte(id) >= 128, negated(id)
  local shown, hidden = is_hidden and other or id, is_hidden and id or other
  local before = place_of[shown]
  if before then
    is_hidden, fresh[before] = is_hidden or fresh[before] == hidden, ''
  elseif not taken_out(shown) then
    is_hidden = taken_out(hidden) or is_hidden
  end
  fresh[#fresh + 1] = is_hidden and hidden or shown
  place_of[shown] = #fresh
end
redis.call('SET', KEYS[1], string.sub(value .. table.concat(fresh), -most * ID), 'PX', ARGV[3])
return 1
