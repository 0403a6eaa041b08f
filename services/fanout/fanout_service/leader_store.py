"""Which process leads, and where the celebrity line is, in Redis."""

import json
import logging
from typing import Any

from feedkit import keys
from feedkit.redis import Redis, Script
from redis.exceptions import ResponseError

from fanout_service.celebrity_line import Cause, Line

logger = logging.getLogger(__name__)

NUMBERS_END = 1 << 47
"""More than any follower count, and later than any time that has a name."""

# A value of another type was not written by us, and holds up nobody.
_HOLD = Script("""
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'string' and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")
_GIVE_UP = Script("""
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")


class LeaderStore:
    """Implements `leading.Lease`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def hold(self, name: str, seconds: float) -> bool:
        """See `leading.Lease`."""
        [held] = await self._redis.run(_HOLD(keys.FANOUT_LEADER, name, int(seconds * 1000)))
        return bool(held)

    async def give_up(self, name: str) -> None:
        """See `leading.Lease`."""
        await self._redis.run(_GIVE_UP(keys.FANOUT_LEADER, name))

    async def leader(self) -> str:
        """Who leads; empty where nobody does. Raises Unavailable."""
        raw = await _read(self._redis, keys.FANOUT_LEADER)
        return "" if raw is None else raw.decode(errors="replace")


class LineStore:
    """Implements `line_in_force.Lines`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def read(self) -> Line | None:
        """See `line_in_force.Lines`."""
        raw = await _read(self._redis, keys.CELEBRITY_LINE)
        if raw is None:
            return None
        try:
            return _line(json.loads(raw))
        except (ValueError, TypeError, KeyError):
            logger.exception("the celebrity line in Redis was not written by us")
            return None

    async def write(self, line: Line) -> None:
        """See `line_in_force.Lines`."""
        told = {"threshold": line.threshold, "cause": line.cause.value, "since_ms": line.since_ms}
        await self._redis.run(("SET", keys.CELEBRITY_LINE, json.dumps(told)))


def _line(told: Any) -> Line:
    threshold, cause, since_ms = told["threshold"], Cause(told["cause"]), told["since_ms"]
    for number in (threshold, since_ms):
        if not isinstance(number, int) or not 0 <= number < NUMBERS_END:
            raise ValueError(f"{number!r} is no count and no time")
    return Line(threshold, cause, since_ms)


async def _read(redis: Redis, key: str) -> bytes | None:
    try:
        [raw] = await redis.run(("GET", key))
    except ResponseError:
        logger.exception("a key in Redis was not written by us", extra={"key": key})
        return None
    return raw
