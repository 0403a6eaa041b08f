-- Before every script. Ids are 8 bytes, big-endian. They are compared by halves, because a Lua number holds integers
-- exactly only up to 2^53, and because comparing strings depends on the server's locale.
local ID, ENTRY, TRAILER = 8, 16, 24

local function less(a, b)
  local a_high, a_low = struct.unpack('>I4I4', a)
  local b_high, b_low = struct.unpack('>I4I4', b)
  return a_high < b_high or (a_high == b_high and a_low < b_low)
end

local function greater_of(a, b)
  if less(a, b) then return b end
  return a
end

-- The id that begins the entry, or the list item, at a place counted from 0.
local function id_at(packed, place, width)
  return string.sub(packed, place * width + 1, place * width + ID)
end

-- What a key holds, '' where there is nothing. A value of another type was not written here, so it is deleted.
local function read(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    redis.call('DEL', key)
    return ''
  end
  return value or ''
end

-- How long a home timeline is in bytes, 0 where there is none. What cannot be one is deleted: it may vanish at any time.
local function timeline_length(key)
  local length = redis.pcall('STRLEN', key)
  if type(length) == 'table' or (length > 0 and (length < TRAILER or (length - TRAILER) % ENTRY ~= 0)) then
    redis.call('DEL', key)
    return 0
  end
  return length
end

-- The first place, from one on, of entries oldest first whose id is not below another id. It looks near by first.
local function place_of(entries, id, from)
  local low, high, step = from, #entries / ENTRY, 1
  while low + step <= high do
    if not less(id_at(entries, low + step - 1, ENTRY), id) then
      high = low + step - 1
      break
    end
    low, step = low + step, 2 * step
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(id_at(entries, middle, ENTRY), id) then low = middle + 1 else high = middle end
  end
  return low
end

-- The entries from one place up to but without another.
local function slice(entries, from, to)
  return string.sub(entries, from * ENTRY + 1, to * ENTRY)
end

-- The union of two runs of entries, each oldest first; what both have is in it once.
local function union(ours, theirs)
  local parts, i, j, n, m = {}, 0, 0, #ours / ENTRY, #theirs / ENTRY
  while i < n and j < m do
    local theirs_next = id_at(theirs, j, ENTRY)
    local stop = place_of(ours, theirs_next, i)
    parts[#parts + 1] = slice(ours, i, stop)
    i = stop
    if i < n then
      local ours_next = id_at(ours, i, ENTRY)
      stop = place_of(theirs, ours_next, j)
      parts[#parts + 1] = slice(theirs, j, stop)
      j = stop
      if j < m and id_at(theirs, j, ENTRY) == ours_next then j = j + 1 end
    end
  end
  parts[#parts + 1] = slice(ours, i, n)
  parts[#parts + 1] = slice(theirs, j, m)
  return table.concat(parts)
end

-- Writes a home timeline, trimmed to the newest `most` entries. Whatever is trimmed raises horizon and cut.
local function write_timeline(key, entries, horizon, cut, epoch, most)
  local over = #entries / ENTRY - most
  if over > 0 then
    local highest_trimmed = id_at(entries, over - 1, ENTRY)
    horizon = greater_of(horizon, highest_trimmed)
    cut = greater_of(cut, highest_trimmed)
    entries = string.sub(entries, over * ENTRY + 1)
  end
  redis.call('SET', key, entries .. horizon .. cut .. epoch, 'KEEPTTL')
end
