-- A log with more than CHUNK entries is a hash of chunks. A chunk has CHUNK entries and
-- does not change any more, except by a refund or an undo. CHUNK consecutive chunks are
-- a group. An index has an entry for each chunk of a group, or for each group: the
-- instant of its last entry, and the running total of units. The fields are:
--
--   h        the head, and the newest entries, at least one
--   o        the open holds, if there are any
--   0, 1, …  the chunks
--   g        the index of the chunks in the last group
--   g0, g1…  the indexes of the chunks in the groups before
--   r        the index of these groups
--
-- The totals of an index, or of a chunk, begin with a total of their own, so an undo
-- changes one chunk and its indexes. An operation reads and writes at most one chunk
-- and its indexes for each end of a range. Chunks that are no longer part of the log
-- are never read; each call that writes the log deletes some of them.
--
-- The head has the following numbers. Chunks below low and from high on are not stored.
-- first is the number of the chunk with the oldest entry, skip the number of entries in
-- it that were removed, and last the number that the tail gets when it is a chunk. top
-- is the first group in the index r. The totals before the oldest entry are chunk_base
-- in its chunk, group_base in the index of its group, and root_base in the index r. If
-- first is not last, oldest and front are the instant and the units of the oldest
-- entry.
local HEAD, HEAD_BYTES = '<BddddddI4I4I4I4I4I4I4', 77
local MAX_DELETED = 16 -- chunks that one call deletes
local chunk_functions

function chunked()
  if chunk_functions then
    return chunk_functions
  end
  local store = {}
  chunk_functions = store

  -- node returns a chunk or an index.
  local function node(log, field)
    local n = log.chunks.nodes[field]
    if not n then
      local raw = redis.call('HGET', log.key, field)
      if not raw then
        error('HEADGATE_FOREIGN')
      end
      n = {base = unpack_from('<I4', raw), entries = raw:sub(5)}
      log.chunks.nodes[field] = n
    end
    return n
  end

  local function put(log, field, entries, base)
    log.chunks.nodes[field] = {base = base, entries = entries}
    log.chunks.written[field] = true
  end

  local function group_of(chunk)
    return floor(chunk / CHUNK)
  end

  -- index_of returns the field with the index of a group.
  local function index_of(log, group)
    return group == group_of(log.chunks.last) and 'g' or 'g' .. group
  end

  -- last_total returns the total of the last entry of a node.
  local function last_total(n)
    if n.entries == '' then
      return n.base
    end
    local _, total = entry_at(n.entries, #n.entries / ENTRY_BYTES - 1)
    return total
  end

  -- total_before returns the total before entry i of a node.
  local function total_before(n, i)
    if i == 0 then
      return n.base
    end
    local _, total = entry_at(n.entries, i - 1)
    return total
  end

  function store.open(log, head)
    local bytes = #head - HEAD_BYTES
    local format = head:byte(1)
    if bytes < (format == HELD_LOG and 0 or ENTRY_BYTES) or bytes % ENTRY_BYTES > 0 or (format ~= LOG_FORMAT and format ~= HELD_LOG) then
      return false
    end
    if format == HELD_LOG then
      log.held = redis.call('HGET', log.key, 'o') or nil
      log.has_field = true
    end
    local x, _ = {nodes = {}, written = {}}
    _, x.low, x.first, x.last, x.high, x.top, x.oldest, x.skip, x.chunk_base, x.group_base, x.root_base, x.front, log.base, log.total = unpack_from(HEAD, head)
    log.chunks, log.tail, log.stored = x, head:sub(HEAD_BYTES + 1), 'hash'
    return true
  end

  -- count returns the number of entries of the log.
  function store.count(log)
    local x = log.chunks
    local entries = #log.tail / ENTRY_BYTES
    if x.first < x.last then
      entries = entries + (x.last - x.first) * CHUNK - x.skip
    end
    return entries
  end

  -- find_chunk searches the indexes for the chunk with the entry. It returns its number
  -- and the units before it, or nil and the units of all chunks.
  local function find_chunk(log, cut, k)
    local x = log.chunks
    local first, open = group_of(x.first), group_of(x.last)
    local group, before, base, from, found = open, 0, 0, 0, nil
    if first < open then
      group, before, found = find(node(log, 'r').entries, first - x.top, x.root_base, cut, k)
      group = found and x.top + group or open
    end
    if group == first then
      base, from = x.group_base, x.first % CHUNK
    end
    local i, units, found_chunk = find(node(log, index_of(log, group)).entries, from, base, cut, k - before)
    return found_chunk and group * CHUNK + i or nil, before + units
  end

  function store.search(log, cut, k)
    local x = log.chunks
    if x.first == x.last then
      return nil, 0, 0
    elseif x.oldest > cut and k <= x.front then
      return x.first, x.skip, 0, x.oldest, x.front
    end
    local chunk, before = find_chunk(log, cut, k)
    if not chunk then
      return nil, 0, before
    end
    local n, from = node(log, chunk), 0
    local base = n.base
    if chunk == x.first then
      base, from = x.chunk_base, x.skip
    end
    local i, units = find(n.entries, from, base, cut, k - before)
    local at, total = entry_at(n.entries, i)
    return chunk, i, before + units, at, (total - base) % WRAP - units
  end

  -- drop removes the entries before entry i of a chunk.
  function store.drop(log, chunk, i)
    local x, group = log.chunks, group_of(chunk)
    local n, index = node(log, chunk), node(log, index_of(log, group))
    local base = total_before(n, i)
    local group_base = total_before(index, chunk % CHUNK) + (base - n.base) % WRAP
    if group < group_of(x.last) then
      x.root_base = (total_before(node(log, 'r'), group - x.top) + group_base) % WRAP
    end
    x.first, x.skip, x.chunk_base, x.group_base = chunk, i, base, group_base % WRAP
    local total
    x.oldest, total = entry_at(n.entries, i)
    x.front = (total - base) % WRAP
  end

  -- restart makes all chunks unused. New chunks begin with a new group.
  function store.restart(log)
    local x = log.chunks
    local group = ceil_div(max(x.last, x.high), CHUNK)
    x.first, x.last, x.high, x.top = group * CHUNK, group * CHUNK, group * CHUNK, group
    put(log, 'g', '', 0)
    put(log, 'r', '', 0)
  end

  -- close_group adds the full index of the last group to the index of the groups.
  local function close_group(log, group, at)
    local x = log.chunks
    local index, root = node(log, 'g'), node(log, 'r')
    local first = group_of(x.first)
    local unused = min(first - x.top, #root.entries / ENTRY_BYTES)
    local base, entries = total_before(root, unused), root.entries:sub(unused * ENTRY_BYTES + 1)
    local before = last_total(root)
    if first == group then
      x.root_base = (before + x.group_base) % WRAP
    end
    x.top = group - #entries / ENTRY_BYTES
    put(log, 'r', entries .. pack(ENTRY, at, (before + last_total(index)) % WRAP), base)
    put(log, 'g' .. group, index.entries, 0)
    put(log, 'g', '', 0)
  end

  -- close_chunk makes a chunk of the oldest entries of the tail.
  local function close_chunk(log)
    local x, index = log.chunks, node(log, 'g')
    local entries = log.tail:sub(1, CHUNK * ENTRY_BYTES)
    local at, total = entry_at(entries, CHUNK - 1)
    local before = last_total(index)
    if x.first == x.last then
      local oldest, first_total = entry_at(entries, 0)
      x.skip, x.chunk_base, x.group_base = 0, log.base, before
      x.oldest, x.front = oldest, (first_total - log.base) % WRAP
    end
    put(log, x.last, entries, log.base)
    put(log, 'g', index.entries .. pack(ENTRY, at, (before + total - log.base) % WRAP), 0)
    log.tail, log.base = log.tail:sub(CHUNK * ENTRY_BYTES + 1), total
    x.last = x.last + 1
    x.high = max(x.high, x.last)
    if x.last % CHUNK == 0 then
      close_group(log, x.last / CHUNK - 1, at)
    end
  end

  -- split makes chunks of a tail that is too long. A small log becomes a hash.
  function store.split(log)
    if not log.chunks then
      log.chunks = {
        nodes = {}, written = {}, low = 0, first = 0, last = 0, high = 0, top = 0, oldest = 0,
        skip = 0, chunk_base = 0, group_base = 0, root_base = 0, front = 0,
      }
      put(log, 'g', '', 0)
      put(log, 'r', '', 0)
    end
    while #log.tail > CHUNK * ENTRY_BYTES do
      close_chunk(log)
    end
  end

  -- reopen removes all entries after entry i of a chunk. The rest of the chunk becomes
  -- the tail.
  function store.reopen(log, chunk, i)
    local x, n, from = log.chunks, node(log, chunk), 0
    local group, open = group_of(chunk), group_of(log.chunks.last)
    log.base = n.base
    if chunk == x.first then
      log.base, from = x.chunk_base, x.skip
    end
    log.tail = n.entries:sub(from * ENTRY_BYTES + 1, (i + 1) * ENTRY_BYTES)
    local index = node(log, index_of(log, group))
    put(log, 'g', index.entries:sub(1, chunk % CHUNK * ENTRY_BYTES), 0)
    if group < open then
      local root = node(log, 'r')
      put(log, 'r', root.entries:sub(1, (group - x.top) * ENTRY_BYTES), root.base)
    end
    x.last = chunk
  end

  -- subtract removes n units from entry i of a chunk, which is not the newest entry.
  function store.subtract(log, chunk, i, n, subtract)
    local x, group = log.chunks, group_of(chunk)
    local field = index_of(log, group)
    local entries, index = node(log, chunk), node(log, field)
    put(log, chunk, subtract(entries.entries, i, n), entries.base)
    put(log, field, subtract(index.entries, chunk % CHUNK, n), 0)
    if group < group_of(x.last) then
      local root = node(log, 'r')
      put(log, 'r', subtract(root.entries, group - x.top, n), root.base)
    end
    if chunk == x.first and i == x.skip then
      x.front = x.front - n
    end
  end

  -- unused_fields returns the fields to delete: at most MAX_DELETED chunks that are
  -- older or newer than all entries, and the indexes of their groups.
  local function unused_fields(x)
    local fields = {}
    local function remove(chunk)
      fields[#fields + 1] = chunk
      if chunk % CHUNK == CHUNK - 1 then
        fields[#fields + 1] = 'g' .. group_of(chunk)
      end
    end
    for _ = 1, MAX_DELETED do
      if x.low < x.first then
        remove(x.low)
        x.low = x.low + 1
      elseif x.high > x.last then
        x.high = x.high - 1
        remove(x.high)
      end
    end
    return fields
  end

  function store.save(log)
    local x, fields = log.chunks, {}
    local unused = unused_fields(x)
    for field in pairs(x.written) do
      local n = x.nodes[field]
      fields[#fields + 1] = field
      fields[#fields + 1] = pack('<I4', n.base) .. n.entries
    end
    if log.held then
      fields[#fields + 1] = 'o'
      fields[#fields + 1] = log.held
    elseif log.has_field then
      unused[#unused + 1] = 'o'
    end
    fields[#fields + 1] = 'h'
    fields[#fields + 1] = pack(HEAD, log.held and HELD_LOG or LOG_FORMAT, x.low, x.first, x.last, x.high, x.top, x.oldest, x.skip, x.chunk_base, x.group_base, x.root_base, x.front, log.base, log.total) .. log.tail
    if log.stored == 'string' then
      redis.call('DEL', log.key)
    end
    redis.call('HSET', log.key, unpack(fields))
    if #unused > 0 then
      redis.call('HDEL', log.key, unpack(unused))
    end
  end

  return store
end
