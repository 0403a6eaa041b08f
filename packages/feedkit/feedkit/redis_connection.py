"""One connection to a Redis server that all callers of a process share.

What callers want at the same moment is written at once, and answers are handed out in the order of the questions, so a
call costs a fraction of what it costs on a connection of its own from a pool. A caller who gives up leaves nothing behind
that somebody else could read: the answers are read all the same, and dropped.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import BusyLoadingError, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from feedkit.redis_scripts import Command, loads

logger = logging.getLogger(__name__)

# Its published type takes one word; and it is seven times as fast as the packing in redis-py.
_pack = cast("Callable[[Command], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]

SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.5
"""Between attempts to reconnect, after the first failed one."""
GRACE_SECONDS = 0.01
"""An event loop that was held up finds timers due before it has looked at answers that came long ago."""


class Call:
    """Commands of one caller, which are written together, and the answers that have come."""

    __slots__ = ("answer", "asked_at", "count", "insists", "packed", "repeated", "replies", "sent_at", "timer")

    def __init__(self, commands: Sequence[Command], *, insists: bool) -> None:
        loop = asyncio.get_running_loop()
        self.packed = b"".join(map(_pack, commands))
        self.count = len(commands)
        self.insists = insists
        self.replies: list[Any] = []
        self.answer: asyncio.Future[list[Any]] = loop.create_future()
        """All replies, errors of single commands among them; RedisTimeoutError where they do not come in time, RedisError
        where the server is away."""
        self.timer: asyncio.TimerHandle
        """Set by who asks: when the answers are late."""
        self.asked_at = loop.time()
        self.sent_at = 0.0
        self.repeated = False

    def fail(self, error: RedisError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def let_go(self) -> None:
        """Nobody waits any longer: what is not written yet will not be, and what comes is dropped."""
        self.timer.cancel()
        if not self.answer.cancel() and not self.answer.cancelled():
            self.answer.exception()  # or it would be logged as one that nobody has looked at


class SharedConnection:
    """The connection, as long as `keep` runs.

    It is made at once, and callers wait for that. When it breaks, or is silent for `timeout_seconds` while an answer is
    due, all that wait fail. After one that broke having answered before, the next one is made at once, and new callers
    wait for it. Otherwise the server is away: calls fail immediately, until one has answered in the background. A call
    that insists has an attempt made at once, and fails only with one that began after it was asked. It is written as soon
    as there is a socket: a server that is silent now will find it there, before whatever it is asked later.

    Nothing is sent twice, but for what was written to an idle connection that the server then closed without a word, as
    it does where it was restarted, or limits how long clients may idle: that is sent once more on the next connection.
    It may have been executed nevertheless, so commands have to be fit for that. All of `key_scripts` are: additions and
    deletions are idempotent; fills and rewrites find their lease or their epoch gone, and are answered 0; a lease taken
    the first time looks like somebody else's, so that nobody fills the key until the lease ends.
    """

    def __init__(self, make: Callable[[], AbstractConnection], timeout_seconds: float, *, name: str = "Redis") -> None:
        """`name` is what the log calls the server."""
        self._make = make
        self._timeout = timeout_seconds
        self._name = name
        self._unsent: deque[Call] = deque()
        self._sent: deque[Call] = deque()
        self._wake = asyncio.Event()
        self._urged = asyncio.Event()
        """Whether somebody insists on an attempt to reconnect."""
        self._away: RedisError | None = None
        self._heard_at = 0.0
        self._was_idle = False
        """Whether nothing has been heard since something was written to the idle connection."""
        self._silence: asyncio.Future[RedisError] | None = None

    @property
    def is_away(self) -> bool:
        """Whether calls fail immediately now, but for those that insist."""
        return self._away is not None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not (self._sent or self._unsent)

    async def call(
        self, commands: Sequence[Command], seconds: float, *, insists: bool = False, age: float = 0
    ) -> list[Any]:
        """The replies to some commands, errors of single commands among them.

        Where the server does not know a script, it is told all of them, and all commands run once more, because they are
        to run in order, and bear it. `age` is for those who have replicas; one server is always up to date.

        Raises RedisTimeoutError where they do not come within so many seconds, RedisError where the server is away.
        """
        replies = await self._replies(commands, seconds, insists=insists)
        if NoScriptError in map(type, replies):
            told = loads()
            replies = (await self._replies([*told, *commands], seconds, insists=insists))[len(told) :]
        return replies

    async def call_everywhere(self, commands: Sequence[Command], seconds: float) -> list[list[Any]]:
        """What `call` gives, of the one server that there is."""
        return [await self.call(commands, seconds)]

    def place_to_listen(self) -> None:
        """Where to subscribe: at the server itself."""

    def has(self, address: tuple[str, int] | None) -> bool:
        """Whether that is still the place to listen."""
        return address is None

    async def _replies(self, commands: Sequence[Command], seconds: float, *, insists: bool) -> list[Any]:
        call = self.ask(commands, seconds, insists=insists)
        try:
            return await call.answer
        finally:
            call.timer.cancel()

    def ask(self, commands: Sequence[Command], seconds: float, *, insists: bool = False) -> Call:
        """Ask without waiting. Who does not wait for the answer to the end has to `let_go` of the call.

        Raises RedisError where the server is away.
        """
        if self._away is not None:
            if not insists:
                raise RedisConnectionError("the server is away") from self._away
            self._urged.set()
        call = Call(commands, insists=insists)
        self._unsent.append(call)
        self._wake.set()
        call.timer = asyncio.get_running_loop().call_later(seconds, self._is_late, call)
        return call

    def _is_late(self, call: Call) -> None:
        if not call.answer.done():
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._give_up, call)

    def _give_up(self, call: Call) -> None:
        if call.answer.done():
            return
        call.fail(RedisTimeoutError("no answer in time"))
        # The reason may be a deadline that was short, or a server that is slow but at work.
        if self._silence is None or self._silence.done() or not self._sent:
            return
        silent_since = max(self._heard_at, self._sent[0].sent_at)
        if asyncio.get_running_loop().time() - silent_since >= self._timeout:
            self._silence.set_result(RedisTimeoutError("the server does not answer"))

    # --- the background ------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Connect, exchange, and connect again, until cancelled."""
        pause = 0.0
        try:
            while True:
                began = asyncio.get_running_loop().time()
                self._urged.clear()
                error = await self._live(self._make())
                if self._heard_at and not isinstance(error, RedisTimeoutError):
                    pause = 0.0
                    self._repeat_or_fail(error)
                else:
                    pause = min(max(2 * pause, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                    if self._away is None:
                        logger.warning("%s is away: %s", self._name, error)
                    self._fail_all(error, but_who_insists_since=began)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._urged.wait()
        finally:
            self._fail_all(RedisConnectionError("the client is closed"))

    async def _live(self, connection: AbstractConnection) -> RedisError:
        """The life of one connection; gives what ended it."""
        self._heard_at, self._was_idle = 0.0, False
        try:
            async with asyncio.timeout(self._timeout):
                await connection.connect()
            self._greet()
            return await self._exchange(connection)
        except TimeoutError:
            return RedisTimeoutError("connecting took too long")
        except RedisError as error:
            return error
        except Exception as error:
            logger.exception("the connection to %s failed", self._name)
            return RedisConnectionError(str(error))
        finally:
            await connection.disconnect(nowait=True)

    def _greet(self) -> None:
        """Ask for a sign of life, without which a server that has been away stays so for all who do not insist."""
        ping = Call([("PING",)], insists=True)
        # Nobody waits for it, nor misses its error.
        ping.answer.add_done_callback(lambda answer: answer.exception())
        self._unsent.appendleft(ping)
        ping.timer = asyncio.get_running_loop().call_later(self._timeout, self._is_late, ping)

    async def _exchange(self, connection: AbstractConnection) -> RedisError:
        """Write and read until one of them fails, or the server is silent for too long; gives which."""
        self._silence = asyncio.get_running_loop().create_future()
        ends: list[asyncio.Future[Any]] = [
            asyncio.create_task(self._write(connection)),
            asyncio.create_task(self._read(connection)),
            self._silence,
        ]
        try:
            ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _write(self, connection: AbstractConnection) -> NoReturn:
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Whoever has given up by now is not sent for.
            calls = [call for call in self._unsent if not call.answer.done()]
            self._unsent.clear()
            if not calls:
                continue
            now = asyncio.get_running_loop().time()
            for call in calls:
                call.sent_at = now
            self._was_idle = self._was_idle or not self._sent
            self._sent.extend(calls)
            await connection.send_packed_command(b"".join([call.packed for call in calls]), check_health=False)

    async def _read(self, connection: AbstractConnection) -> NoReturn:
        loop, sent = asyncio.get_running_loop(), self._sent
        read = cast("Any", connection.read_response)
        while True:
            try:
                reply = await read(disable_decoding=True, timeout=math.inf, disconnect_on_error=False)
            except (ResponseError, BusyLoadingError) as error:
                reply = error
            self._heard_at = loop.time()
            self._was_idle = False
            if self._away is not None:
                logger.info("%s is back", self._name)
                self._away = None
            if not sent:
                raise RedisConnectionError("an answer to no question")
            call = sent[0]
            call.replies.append(reply)
            if len(call.replies) == call.count:
                sent.popleft()
                if not call.answer.done():
                    call.answer.set_result(call.replies)

    def _repeat_or_fail(self, error: RedisError) -> None:
        again = [call for call in self._sent if self._was_idle and not call.repeated]
        for call in again:
            call.repeated = True
        for call in self._sent:
            if call not in again:
                call.fail(error)
        self._sent.clear()
        self._unsent.extendleft(reversed(again))

    def _fail_all(self, error: RedisError, *, but_who_insists_since: float = math.inf) -> None:
        self._away = error
        insistent = [call for call in self._unsent if call.insists and call.asked_at >= but_who_insists_since]
        for call in (*self._sent, *self._unsent):
            if call not in insistent:
                call.fail(error)
        self._sent.clear()
        self._unsent = deque(call for call in insistent if not call.answer.done())
        if self._unsent:
            self._urged.set()
