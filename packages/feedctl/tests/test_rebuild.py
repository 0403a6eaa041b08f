"""Whose timelines are rebuilt, and how fast."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from click import BadParameter
from click.testing import CliRunner, Result
from feedctl.__main__ import main
from feedctl.rebuild import Selection, Tally, even_pace, slot
from feedctl.timeline_commands import Slots
from hypothesis import given
from hypothesis import strategies as st

USER_IDS = st.integers(1, 2**63 - 1)
# What `CLUSTER KEYSLOT tl:v1:7` says, and of others likewise.
KNOWN_SLOTS = {1: 73, 7: 8335, 61: 14053, 2**63 - 1: 5219}


@pytest.mark.parametrize("viewer", KNOWN_SLOTS)
def test_a_timeline_is_in_the_slot_that_redis_cluster_keeps_it_in(viewer: int) -> None:
    assert slot(viewer) == KNOWN_SLOTS[viewer]


@given(st.sets(USER_IDS), st.integers(1, 16383))
def test_shards_part_the_viewers_among_them(viewers: set[int], border: int) -> None:
    shards = [Selection(slots=(slots,)) for slots in (range(border), range(border, 16384))]
    parts = [set(filter(shard.has, viewers)) for shard in shards]
    assert parts[0] | parts[1] == viewers
    assert not parts[0] & parts[1]


@given(st.sets(USER_IDS), USER_IDS)
def test_a_run_goes_on_after_the_last_viewer_of_the_one_before(viewers: set[int], reached: int) -> None:
    assert set(filter(Selection(after=reached).has, viewers)) == {viewer for viewer in viewers if viewer > reached}


def test_every_viewer_is_counted_once() -> None:
    assert Tally(0, asked=1, standing=2, following_nobody=3, unknown=4).viewers == 10


@pytest.mark.parametrize(
    ("text", "slots"), [("0-5460", range(5461)), ("16383", range(16383, 16384)), ("7-7", range(7, 8))]
)
def test_slots_are_written_as_redis_cluster_does(text: str, slots: range) -> None:
    assert Slots().convert(text, None, None) == slots


@pytest.mark.parametrize("text", ["", "-", "5-", "-5", "9-8", "16384", "0-16384", "1,2", "0x5", "１"])
def test_other_slots_are_refused(text: str) -> None:
    with pytest.raises(BadParameter, match=r"such as 0-5460|within 0-16383"):
        Slots().convert(text, None, None)


@pytest.mark.parametrize("options", [[], ["--all", "--viewer", "1"], ["--slots", "1", "--all"]])
def test_it_has_to_be_said_whose_timelines_in_one_way(options: list[str]) -> None:
    result = feedctl("timeline", "rebuild", *options)
    assert result.exit_code == 2
    assert "one of --viewer, --slots and --all" in result.output


async def test_turns_come_evenly() -> None:
    waited = await turns(even_pace(100), 5)
    assert waited >= 0.05


async def test_who_is_late_does_not_catch_up() -> None:
    now = 0.0
    turn = even_pace(10, lambda: now)
    now = 60.0
    asked = asyncio.get_running_loop().time()
    await turn()
    assert asyncio.get_running_loop().time() - asked >= 0.1


async def turns(turn: Callable[[], Awaitable[None]], count: int) -> float:
    """How many seconds so many turns took."""
    began = asyncio.get_running_loop().time()
    for _ in range(count):
        await turn()
    return asyncio.get_running_loop().time() - began


# --- without a mesh ----------------------------------------------------------------------------------------------------


def feedctl(*words: str, completes: str = "") -> Result:
    environment = (
        {"COMP_WORDS": completes, "COMP_CWORD": "2", "_FEEDCTL_COMPLETE": "bash_complete"} if completes else {}
    )
    return CliRunner(env=environment).invoke(main, ["--state", "nowhere.json", *words], prog_name="feedctl")


@pytest.mark.parametrize("command", ["status", "verify", "call", "user purge", "user suspend", "timeline rebuild"])
def test_help_needs_no_mesh(command: str) -> None:
    result = feedctl(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage: feedctl" in result.output


@pytest.mark.parametrize("command", ["status", "verify", "user purge 1", "user restore 1", "timeline rebuild --all"])
def test_everything_else_says_how_to_get_one(command: str) -> None:
    result = feedctl(*command.split())
    assert result.exit_code == 1
    assert result.output.startswith("Error: nowhere.json does not exist: is a mesh up?")
    assert result.output.count("\n") == 1


def test_a_shell_completes_commands_without_a_mesh() -> None:
    assert "plain,purge" in feedctl(completes="feedctl user pu").output
