"""The steps that write to Redis keys, each one command on one key, and atomic.

Every function gives a command for `redis.Redis.run`. What is written, and the rules that make these steps right together
whatever comes between them, are told in `keys` and in the scripts themselves, `lua/*.lua`.
"""

import secrets
from collections.abc import Iterable
from importlib.resources import files

from feedkit import keys
from feedkit.redis import Command, Script

LEASE_MS = 5_000
"""How long a lease lasts: longer than the truth takes to be read."""


def load(*names: str) -> Script:
    """A script of `lua`, with the prelude before it; of several files, joined in this order."""
    directory = files("feedkit") / "lua"
    return Script("".join((directory / f"{name}.lua").read_text() for name in ("prelude", *names)))


_PUSH = load("push")
_WITHDRAW = load("withdraw")
_REBUILD = load("rebuild")
_RECONCILE = load("reconcile")
_FILL = load("fill")
_ADD_TO_LIST = load("add_to_list")


# --- cached values -----------------------------------------------------------------------------------------------------


def get(key: str) -> Command:
    """Read a cached value, for `keys.payload`."""
    return ("GET", key)


def get_many(some_keys: Iterable[str]) -> Command:
    """Read cached values, each for `keys.payload`."""
    return ("MGET", *some_keys)


def forget(*some_keys: str) -> Command:
    """Delete cached values, because the truth has changed. Leases go too, so nobody fills in what was read before."""
    return ("DEL", *some_keys)


def new_token() -> bytes:
    """A token that no other lease has."""
    return secrets.token_bytes(keys.TOKEN_BYTES)


def take_lease(key: str, token: bytes) -> Command:
    """Take the lease of an absent key. The answer is None where the key is there: then the truth is read, not filled in."""
    return ("SET", key, keys.lease(token), "NX", "PX", LEASE_MS)


def fill(key: str, token: bytes, payload: bytes, life_ms: int) -> Command:
    """Fill a key in with what was read since its lease was taken; 0 where the lease is gone."""
    return _FILL(key, keys.lease(token), keys.value(payload), life_ms)


def add_to_list(key: str, post_id: int, most: int) -> Command:
    """Add a post to `own` or `recents`; 0 where there is no list."""
    return _ADD_TO_LIST(key, keys.encode_id(post_id), most)


# --- home timelines ----------------------------------------------------------------------------------------------------


def read_timeline(viewer_id: int, newest: int) -> Command:
    """Read so many of the newest entries, for `keys.decode_timeline`; 0 reads what the timeline says of itself."""
    return ("GETRANGE", keys.timeline(viewer_id), keys.newest(newest), -1)


def read_whole_timeline(viewer_id: int) -> Command:
    """Read all entries, for `keys.decode_timeline`."""
    return ("GETRANGE", keys.timeline(viewer_id), 0, -1)


def push(viewer_id: int, entries: bytes, most: int) -> Command:
    """Add entries (`keys.encode_entries`, oldest first, one or more); 0 where there is no timeline."""
    return _PUSH(keys.timeline(viewer_id), entries, most)


def push_history(viewer_id: int, epoch: bytes, left_out: int, entries: bytes, most: int) -> Command:
    """Add all that an author wrote and that was not pushed, and give the timeline a new epoch; 0 where there is none.

    `left_out`: the author's newest post that is not among the entries, 0 if all are; the horizon rises to it. Entries at or
    below the horizon are left out.
    """
    return _PUSH(keys.timeline(viewer_id), entries, most, keys.encode_id(left_out), epoch)


def push_since(viewer_id: int, before: bytes, epoch: bytes, entries: bytes, most: int) -> Command:
    """Add what is new in a history that was pushed with the epoch `before`; 0 where the timeline was rewritten since."""
    return _PUSH(keys.timeline(viewer_id), entries, most, keys.encode_id(0), epoch, before)


def withdraw(viewer_id: int, post_ids: Iterable[int]) -> Command:
    """Take deleted posts out; the answer is how many were in it."""
    return _WITHDRAW(keys.timeline(viewer_id), b"".join(map(keys.encode_id, post_ids)))


def new_epoch() -> bytes:
    """An epoch that no timeline has had."""
    return secrets.token_bytes(keys.EPOCH_BYTES)


def create_timeline(viewer_id: int, horizon: int, life_ms: int) -> Command:
    """Create an empty timeline where there is none: complete above the horizon, which is now."""
    empty = keys.encode_trailer(keys.Trailer(horizon, 0, new_epoch()))
    return ("SET", keys.timeline(viewer_id), empty, "NX", "PX", life_ms)


def rebuild(viewer_id: int, epoch: bytes, left_out: int, entries: bytes, most: int) -> Command:
    """End a rebuild; 0 where it has to start again. `left_out`: the newest post that was left out, 0 if none was."""
    return _REBUILD(keys.timeline(viewer_id), epoch, new_epoch(), keys.encode_id(left_out), entries, most)


def add_author(  # noqa: PLR0917 - in the order of `rebuild`
    viewer_id: int, epoch: bytes, author_id: int, left_out: int, entries: bytes, most: int
) -> Command:
    """End a reconcile with a followed author; 0 where it has to start again. `left_out` is as in `rebuild`."""
    author, low = keys.encode_id(author_id), keys.encode_id(left_out)
    return _RECONCILE(keys.timeline(viewer_id), epoch, new_epoch(), author, 1, low, entries, most)


def remove_author(viewer_id: int, epoch: bytes, author_id: int, most: int) -> Command:
    """End a reconcile with an author who is not followed; 0 where it has to start again."""
    author, none = keys.encode_id(author_id), keys.encode_id(0)
    return _RECONCILE(keys.timeline(viewer_id), epoch, new_epoch(), author, 0, none, b"", most)


def keep_timeline(viewer_id: int, life_ms: int) -> Command:
    """Let a timeline live on, because its viewer reads it."""
    return ("PEXPIRE", keys.timeline(viewer_id), life_ms)


def delete_timeline(viewer_id: int) -> Command:
    """Delete a timeline; a rebuild does before it begins, so that nothing of the old one, its cut above all, counts."""
    return ("UNLINK", keys.timeline(viewer_id))
