"""Acts of people and operators, carried out through the front doors: noted when they are acknowledged, and held against
what the rules say of who may do what."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import grpc.aio
import httpx
import operators
from devmesh.mesh import Mesh
from feed_api import FeedApi

from tests.oracle.difference import Difference
from tests.oracle.ledger import Fact, Ledger, Possible, Text, standing, text
from tests.oracle.steps import Act, Bind, Delete, Edit, FollowMany, Judge, Loose, Standing, Tie, Write, WriteMany

CONFLICT = 409
NOBODY = "UNAUTHENTICATED"
"""How the gateway refuses somebody who does not exist any more."""
_PATHS = {Tie.FOLLOW: "following", Tie.BLOCK: "blocks", Tie.MUTE: "mutes"}
_OPERATIONS = {
    Standing.ACTIVE: operators.restore,
    Standing.SUSPENDED: operators.suspend,
    Standing.DELETED: operators.delete,
}


class Rules(NamedTuple):
    """What may become of an act."""

    may_succeed: bool
    refusals: set[str]
    """The reasons for which it may be refused."""


class Acting:
    """Acts for people, who are given by their numbers, and notes what was acknowledged."""

    def __init__(self, mesh: Mesh, api: FeedApi, ledger: Ledger) -> None:
        self._mesh = mesh
        self._api = api
        self._ledger = ledger
        self.written: dict[int, int] = {}
        """Ids of posts, by their numbers in the programme."""

    async def act(self, act: Act) -> None:
        """Do it. Raises Difference where the answer is none that the rules allow."""
        match act:
            case Write(person, post, content):
                await self._write(person, post, content)
            case WriteMany(person, posts):
                for post in posts:
                    await self._write(person, post, f"Post {post}")
            case Edit(person, post, content):
                if post in self.written:
                    await self._edit(person, self.written[post], content)
            case Delete(person, post):
                if post in self.written:
                    await self._delete(person, self.written[post])
            case Bind(person, tie, other) | Loose(person, tie, other):
                await self._tie(person, tie, other, bound=isinstance(act, Bind))
            case FollowMany(person, others):
                await self._follow_many(person, others)
            case Judge(person, verdict):
                await self._judge(person, verdict)

    # --- posts -----------------------------------------------------------------------------------------------------------

    async def _write(self, person: int, post: int, content: str) -> None:
        author = self._id(person)
        before = self._ledger.moment()
        response = await self._call(
            "POST", "/api/posts", author, {"content": content}, {"Idempotency-Key": str(uuid.uuid4())}
        )
        refusal = _refusal(response)
        if refusal is None:
            self.written[post] = int(response.json()["id"])
            self._ledger.write(self.written[post], author, content)
        self._check(Write(person, post, content), refusal, _may_act(self._ledger.since(before), author))

    async def _edit(self, person: int, post: int, content: str) -> None:
        author = self._id(person)
        before = self._ledger.moment()
        said: Text | None = self._ledger.value(text(post))
        edited = said is not None and (said.edited or said.content != content)
        with self._ledger.changing({} if said is None else {text(post): Text(content, edited)}) as change:
            response = await self._call("PATCH", f"/api/posts/{post}", author, {"content": content})
            refusal = _refusal(response)
            if refusal is not None:
                change.refuse()
        rules = _may_act(self._ledger.since(before), author)
        if said is None:
            rules = Rules(may_succeed=False, refusals=rules.refusals | {"POST_NOT_FOUND"})
        elif Standing.DELETED in self._ledger.since(before).of(standing(author)):
            # It is being erased.
            rules = Rules(may_succeed=rules.may_succeed, refusals=rules.refusals | {"POST_NOT_FOUND"})
        self._check(Edit(person, post, content), refusal, rules)

    async def _delete(self, person: int, post: int) -> None:
        author = self._id(person)
        before = self._ledger.moment()
        with self._ledger.changing({text(post): None}):
            refusal = _refusal(await self._call("DELETE", f"/api/posts/{post}", author))
        gone = Standing.DELETED in self._ledger.since(before).of(standing(author))
        # Whoever does not exist any more has nothing left to delete; until it is erased they may.
        allowed = Rules(may_succeed=True, refusals={NOBODY, "POST_NOT_FOUND"} if gone else set())
        self._check(Delete(person, post), refusal, allowed)

    # --- ties ------------------------------------------------------------------------------------------------------------

    async def _tie(self, person: int, tie: Tie, other: int, *, bound: bool) -> None:
        one, another = self._id(person), self._id(other)
        before = self._ledger.moment()
        with self._ledger.changing(_tied(one, tie, another, bound=bound)) as change:
            response = await self._call("PUT" if bound else "DELETE", f"/api/{_PATHS[tie]}/{another}", one)
            refusal = _refusal(response)
            if refusal is not None:
                change.refuse()
        possible = self._ledger.since(before)
        rules = (
            _may_follow(possible, one, another) if (tie, bound) == (Tie.FOLLOW, True) else _both(possible, one, another)
        )
        self._check((Bind if bound else Loose)(person, tie, other), refusal, rules)

    async def _follow_many(self, person: int, others: Sequence[int]) -> None:
        one, many = self._id(person), {self._id(other): other for other in others}
        before = self._ledger.moment()
        body = {"userIds": [str(another) for another in many]}
        with ExitStack() as stack:
            changes = {
                another: stack.enter_context(self._ledger.changing({(Tie.FOLLOW, one, another): True}))
                for another in many
            }
            response = await self._call("POST", "/api/following", one, body)
            refusal = _refusal(response)
            refusals = _refusals(response) if refusal is None else {}
            for another, change in changes.items():
                if refusals.get(another, refusal) is not None:
                    change.refuse()
        possible = self._ledger.since(before)
        if refusal is not None:
            self._check(FollowMany(person, tuple(others)), refusal, _may_act(possible, one))
        for another, reason in refusals.items():
            self._check(Bind(person, Tie.FOLLOW, many[another]), reason, _may_follow(possible, one, another))

    # --- operators -------------------------------------------------------------------------------------------------------

    async def _judge(self, person: int, verdict: Standing) -> None:
        user = self._id(person)
        gone = self._ledger.value(standing(user)) is Standing.DELETED
        with self._ledger.changing({standing(user): verdict}) as change:
            try:
                await _OPERATIONS[verdict](self._mesh, user)
                refusal = None
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                refusal = "USER_NOT_FOUND"
                change.refuse()
        deletes = verdict is Standing.DELETED
        rules = Rules(may_succeed=deletes or not gone, refusals={"USER_NOT_FOUND"} if gone and not deletes else set())
        self._check(Judge(person, verdict), refusal, rules)

    # --- calls -----------------------------------------------------------------------------------------------------------

    def _id(self, person: int) -> int:
        return self._ledger.people[person]

    async def _call(
        self, method: str, path: str, viewer: int, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """A call, repeated where the gateway says that an earlier attempt of ours is still under way."""
        while True:
            response = await self._api.call(method, path, viewer=viewer, json=json, headers=headers)
            if response.status_code != CONFLICT or response.json()["reason"] != "IDEMPOTENCY_KEY_IN_FLIGHT":
                return response
            await asyncio.sleep(0.2)

    def _check(self, act: Act, refusal: str | None, rules: Rules) -> None:
        if refusal is None and not rules.may_succeed:
            raise Difference(f"{act!r} succeeded, and is to be refused for {sorted(rules.refusals)}")
        if refusal is not None and refusal not in rules.refusals:
            allowed = f"for {sorted(rules.refusals)} alone" if rules.refusals else "for nothing"
            raise Difference(f"{act!r} was refused for {refusal}, and may be refused {allowed}")


def _tied(one: int, tie: Tie, another: int, *, bound: bool) -> dict[Fact, Any]:
    facts: dict[Fact, Any] = {(tie, one, another): bound}
    if tie is Tie.BLOCK and bound:
        facts |= {(Tie.FOLLOW, one, another): False, (Tie.FOLLOW, another, one): False}
    return facts


def _refusal(response: httpx.Response) -> str | None:
    """The reason of a refusal; None for success. Raises Difference where the answer is neither."""
    if response.is_success:
        return None
    if not response.is_client_error:
        raise Difference(f"{response.request.method} {response.url.path}: {response.status_code} {response.text}")
    return response.json()["reason"]


def _refusals(response: httpx.Response) -> dict[int, str | None]:
    """The same for each follow of many."""
    return {int(result["userId"]): result.get("reason") for result in response.json()["results"]}


def _may_act(possible: Possible, actor: int) -> Rules:
    """Posting, editing, following: for accounts that are as any other."""
    stands = possible.of(standing(actor))
    refusals = {Standing.SUSPENDED: "ACCOUNT_SUSPENDED", Standing.DELETED: NOBODY}
    return Rules(Standing.ACTIVE in stands, {refusals[stand] for stand in stands if stand in refusals})


def _may_follow(possible: Possible, actor: int, other: int) -> Rules:
    """Following, besides: nobody who is suspended, deleted, or blocks or is blocked."""
    may_succeed, refusals = _may_act(possible, actor)
    stands, blocked = possible.of(standing(other)), possible.blocked(actor, other)
    if Standing.SUSPENDED in stands:
        refusals.add("USER_SUSPENDED")
    if Standing.DELETED in stands:
        refusals.add("USER_NOT_FOUND")
    if True in blocked:
        refusals.add("BLOCKED")
    # What stands already is no new follow.
    stood = True in possible.of((Tie.FOLLOW, actor, other)) and Standing.SUSPENDED in stands
    return Rules(may_succeed and (Standing.ACTIVE in stands or stood) and False in blocked, refusals)


def _both(possible: Possible, actor: int, other: int) -> Rules:
    """Everything else between two: for all who are there, suspended or not."""
    actors, others = possible.of(standing(actor)), possible.of(standing(other))
    refusals = {
        reason for reason, stands in ((NOBODY, actors), ("USER_NOT_FOUND", others)) if Standing.DELETED in stands
    }
    return Rules(actors != {Standing.DELETED} and others != {Standing.DELETED}, refusals)
