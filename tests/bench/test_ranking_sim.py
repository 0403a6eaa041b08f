"""The simulation that judges ranking, in a world so small that it takes seconds."""

import numpy as np
import pytest
from feedrank.features import FEATURES, matrix
from feedrank.replay import replay
from numpy.typing import NDArray

from tests.bench.ranking_memory import Memory
from tests.bench.ranking_sim import Tally, simulate
from tests.bench.ranking_world import BEGIN_MS, DAY_MS, Size, World

TINY = Size(viewers=40, authors=60, celebrities=3, followees=25, days=5)


def test_a_world_is_the_same_each_time_and_another_with_another_seed() -> None:
    one, same, other = World(TINY, 1), World(TINY, 1), World(TINY, 2)
    assert np.array_equal(one.sittings, same.sittings)
    assert np.array_equal(one.post_quality, same.post_quality)
    assert not np.array_equal(one.taste, other.taste)


def test_a_viewer_is_shown_the_newest_posts_of_followees_and_nothing_of_the_future() -> None:
    world, noon = World(TINY, 1), BEGIN_MS + DAY_MS // 2
    posts = world.followed_posts(3, noon, 10)
    assert np.all(world.follows[3, world.post_author[posts]])
    assert np.all(np.diff(posts) < 0)
    assert np.all(world.post_at_ms[posts] < noon)
    everything = np.flatnonzero(world.follows[3, world.post_author] & (world.post_at_ms < noon))
    assert posts.tolist() == everything[::-1][:10].tolist()


def test_what_the_simulated_mesh_knows_is_what_the_replay_of_its_log_knows() -> None:
    world = World(TINY, 1)
    memory, chance = Memory(world), np.random.default_rng(1)
    known: list[NDArray[np.float32]] = []
    for at_ms, viewer in world.sittings[:300].tolist():
        posts = world.followed_posts(viewer, at_ms, 3)
        if not len(posts):
            continue
        shown = posts[-1:]
        look = world.looked_at(viewer, shown, at_ms, memory.has_seen(viewer, shown), chance)
        known.append(matrix(memory.candidates(viewer, shown, at_ms), at_ms / 1_000)[0])
        memory.observe(viewer, look, np.zeros(1, np.intp), False, at_ms)
    # A last look, long after, so that of all others it is known what followed.
    shown = world.followed_posts(0, BEGIN_MS + DAY_MS, 1)
    last = world.looked_at(0, shown, BEGIN_MS + 100 * DAY_MS, np.zeros(1, np.bool_), chance)
    memory.observe(0, last, np.zeros(1, np.intp), False, BEGIN_MS + 100 * DAY_MS)
    examples = replay(memory.log(), told_within_ms=0)
    assert len(examples) == len(known) > 200
    for column, name in enumerate(FEATURES):
        found, expected = examples.features[:, column], np.array(known)[:, column]
        # Where two sittings overlap, one of them knows less of the other than the simulation lets it know.
        assert np.mean(np.isclose(found, expected, atol=1e-3)) > 0.97, name


@pytest.mark.timeout(120)
def test_learning_ranks_better_than_chance_and_time() -> None:
    tallies, trees = simulate(World(TINY, 1))
    ndcg = {name: np.nanmean(np.concatenate(tally.ndcg)) for name, tally in tallies.items()}
    assert min(ndcg["trained"], ndcg["baseline"]) > ndcg["chronological"] > ndcg["random"]
    assert trees["dwell"] > 0


def test_figures_of_one_who_saw_nothing_are_unknown() -> None:
    tally = Tally(viewers=2, authors=1)
    tally.seen[0], tally.engaged[0] = 500, 2
    found = tally.per_thousand(tally.engaged)
    assert found[0] == 4.0
    assert np.isnan(found[1])
