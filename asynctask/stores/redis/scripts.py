"""The Lua scripts: each step of a run's record is one of them, so that no step is seen half done.

A run's record is a hash that only its own key's scripts touch:

- `state`: `R` running, `T` settled by its holder, `L` lost (its lease ran out). `T` and `L` are final.
- `id`: the run's id, which fences every write of its holder.
- `snap`, `ver`: the snapshot that the holder published last, as JSON that no script looks into, and its
  version.
- `lease`: until when the holder is believed, in milliseconds by the server's clock.
- `cancel`, `lost`, `bump`: what others changed since: that it shall stop, when it was found lost, and how
  many such changes there were. They are laid over `snap` by whoever reads it (`record.picture`), so that
  the version which pollers see, `ver + bump`, grows with every change whoever made it.

A tenant's index is a sorted set of its records, by the time at which they expire; that is `inf` while
RUNNING.

Under a full memory a server refuses a script's first write if it could grow the data, and none that
follows. A claim therefore begins with such a write, and is refused. What renews, settles, cancels or gives
up a run begins with one that only sets an expiry, so that a full memory costs no run its lease or its
outcome.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Script(NamedTuple):
    """A script and the digest by which a server that has it knows it."""

    text: str
    sha: str


_COMMON = """
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- A record's name is its index's name, a colon, and its name in the index.
local function name(run, index)
  return string.sub(run, #index + 2)
end

local function expire(run, index, ttl, t)
  redis.call('ZADD', index, t + ttl, name(run, index))
  redis.call('ZREMRANGEBYSCORE', index, '-inf', t)
  local last = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')
  if last[2] == 'inf' then
    redis.call('PERSIST', index)
  else
    redis.call('PEXPIREAT', index, last[2])
  end
end

local function lose(run, index, ttl, t)
  redis.call('PEXPIRE', run, ttl)
  redis.call('HSET', run, 'state', 'L', 'lost', t)
  expire(run, index, ttl, t)
end

-- What readers see of a record: the snapshot as it was published; or, where others changed something since,
-- {state, snap, bump, lost, cancel, whether the loss was found just now}; or false where there is none.
local function look(run, index, ttl)
  local h = redis.call('HMGET', run, 'state', 'snap', 'bump', 'lost', 'cancel', 'lease')
  if h[1] == 'R' then
    local t = now()
    if tonumber(h[6]) < t then
      lose(run, index, ttl, t)
      return {'L', h[2], h[3], t, h[5], 1}
    end
  end
  if h[1] == 'L' or (h[1] and h[3] ~= '0') then
    return {h[1], h[2], h[3], h[4], h[5], 0}
  end
  return h[2]
end

-- Write a record anew, over an old one if there is one.
local function put(run, index, old, id, version, snap, bump, lease)
  redis.call('HSET', run, 'state', 'R', 'id', id, 'ver', version, 'snap', snap, 'bump', bump, 'lease', lease)
  if old then
    redis.call('HDEL', run, 'lost', 'cancel')
    redis.call('PERSIST', run)
  end
  redis.call('ZADD', index, 'inf', name(run, index))
  redis.call('PERSIST', index)
end
"""


def _script(text: str) -> Script:
    text = _COMMON + text
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


# KEYS: the record, the tenant's index. ARGV: the TTL in milliseconds, and whatever a script unpacks below.
# Answers are as short as can be: to read them is what costs a client most.

READ = _script("return look(KEYS[1], KEYS[2], ARGV[1])")
"""What `look` gives."""

CLAIM = _script("""
local ttl, id, length, snap = unpack(ARGV)
local h = redis.call('HMGET', KEYS[1], 'state', 'id', 'lease')
local t = now()
if h[1] == 'R' and h[2] == id then  -- the answer to an earlier try was lost on its way
  redis.call('HSET', KEYS[1], 'lease', t + length)
  return t + length
elseif h[2] == id then  -- the same, but so long ago that the run was given up
  return 0
elseif h[1] == 'R' and tonumber(h[3]) >= t then
  return {look(KEYS[1], KEYS[2], ttl)}
end
put(KEYS[1], KEYS[2], h[1], id, 1, snap, 0, t + length)
if h[1] == 'R' then
  return {t + length, h[2]}
end
return t + length
""")
"""A lease: ours. {a lease, the id of a lost run}: ours, in place of that one. {what `look` gives}: joined.
0: over already."""

RENEW = _script("""
local ttl, id, length, version, snap, lease, bump = unpack(ARGV)
local h = redis.call('HMGET', KEYS[1], 'state', 'id', 'lease', 'cancel', 'bump', 'ver')
local t = now()
if not h[1] then
  if tonumber(lease) < t then
    return 0
  end
  put(KEYS[1], KEYS[2], false, id, version, snap, bump + 1, t + length)
  return {t + length, bump + 1, false, 1}
end
if h[2] ~= id or h[1] ~= 'R' then
  return 0
end
if tonumber(h[3]) < t then
  lose(KEYS[1], KEYS[2], ttl, t)
  return 0
end
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], 'lease', t + length)
if tonumber(h[6]) < tonumber(version) then  -- a packet may overtake an earlier one
  redis.call('HSET', KEYS[1], 'snap', snap, 'ver', version)
end
if h[5] ~= bump then
  return {t + length, tonumber(h[5]), h[4], 0}
end
return t + length
""")
"""A lease: renewed. {a lease, bump, cancel, whether the server had forgotten the run}: renewed, and the
record is not as the holder thought. 0: no longer ours."""

SETTLE = _script("""
local ttl, id, version, snap, lease, bump = unpack(ARGV)
local h = redis.call('HMGET', KEYS[1], 'state', 'id', 'lease')
local t = now()
if not h[1] then
  if tonumber(lease) < t then
    return 0
  end
  put(KEYS[1], KEYS[2], false, id, version, snap, bump + 1, lease)
elseif h[2] ~= id then
  return 0
elseif h[1] ~= 'R' then
  return h[1] == 'T' and 1 or 0
elseif tonumber(h[3]) < t then
  lose(KEYS[1], KEYS[2], ttl, t)
  return 0
end
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('HSET', KEYS[1], 'state', 'T', 'snap', snap, 'ver', version)
expire(KEYS[1], KEYS[2], ttl, t)
return 1
""")
"""1: the outcome counts, also when it is told again. 0: it does not."""

CANCEL = _script("""
local seen = look(KEYS[1], KEYS[2], ARGV[1])
local h = redis.call('HMGET', KEYS[1], 'state', 'id', 'cancel')
if h[1] ~= 'R' then
  return {seen, false}
end
if not h[3] then
  redis.call('PERSIST', KEYS[1])
  redis.call('HSET', KEYS[1], 'cancel', 1)
  redis.call('HINCRBY', KEYS[1], 'bump', 1)
end
return {look(KEYS[1], KEYS[2], ARGV[1]), h[2]}
""")
"""{what `look` gives, the id of the run that shall stop}."""

ABANDON = _script("""
local ttl, id = unpack(ARGV)
local h = redis.call('HMGET', KEYS[1], 'state', 'id')
if h[1] ~= 'R' or h[2] ~= id then
  return 0
end
lose(KEYS[1], KEYS[2], ttl, now())
return 1
""")
"""Give a run up whose claim succeeded without its holder knowing. 1: done."""

LIST = _script("""
local found = {}
for i = 2, #KEYS do
  local seen = look(KEYS[i], KEYS[1], ARGV[1])
  if seen then
    found[#found + 1] = seen
  else
    redis.call('ZREM', KEYS[1], name(KEYS[i], KEYS[1]))
  end
end
return found
""")
"""What `look` gives for each record that there is. KEYS: the index, the records."""

ANNOUNCE = _script("""
local t = now()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', t - ARGV[1])
redis.call('ZADD', KEYS[1], t, ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
""")
"""Tell all instances that a run shall stop. KEYS: the announcements. ARGV: how long they last, and the id."""

READ_CANCELS = _script("return redis.call('ZRANGE', KEYS[1], 0, -1)")
"""The ids of the runs that were announced. KEYS: the announcements."""
