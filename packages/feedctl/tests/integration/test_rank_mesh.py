"""What `feedctl rank` reads of PostgreSQL is what was written there, whichever service wrote it."""

import asyncio
import json
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest
from click.testing import CliRunner, Result
from devmesh.backends.postgres import Postgres
from feedctl.__main__ import main
from feedkit import postgres
from feedkit.cursor import first_id_at
from feedrank.dataset import ENGAGEMENTS
from feedrank.log_file import read
from feedrank.model_file import read as read_model
from learnable_log import BEGIN_MS, log_of

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
NOW_MS = int(time.time() * 1_000)
ANN, BOB, CAT = 1, 2, 3


def ago(hours: float) -> int:
    """Unix milliseconds."""
    return NOW_MS - int(hours * HOUR_MS)


def written(hours: float, nth: int = 0) -> int:
    """The id of a post that was written so long ago."""
    return first_id_at(ago(hours)) + nth


OLD, PICTURE, ANSWER, GONE = written(24 * 90), written(60), written(50), written(49)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """Databases of `post` and `graph`, just migrated."""
    with Postgres(databases=["post", "graph"]) as server:
        for name in ("post", "graph"):
            settings = postgres.PostgresSettings.model_validate({"postgres_dsn": server.dsn(name)})
            asyncio.run(postgres.migrate(settings, files(f"{name}_service") / "migrations"))
        asyncio.run(write(server))
        yield server


async def write(server: Postgres) -> None:
    """Bob follows Ann, who is a favourite, and Cat. He has seen a picture of Ann's, and Cat's answer to it."""
    post, graph = [await asyncpg.connect(server.dsn(name)) for name in ("post", "graph")]
    await post.executemany(
        "INSERT INTO posts (id, author_id, content, media, reply_to, deleted) VALUES ($1, $2, 'secret words', $3, $4, $5)",
        [
            (OLD, ANN, "[]", None, False),
            (PICTURE, ANN, '[{"url": "https://example.org/a", "type": "image"}]', None, False),
            (ANSWER, CAT, "[]", PICTURE, False),
            (GONE, CAT, "[]", PICTURE, True),
        ],
    )
    await post.executemany(
        "INSERT INTO impressions (viewer_id, post_id, at, position, dwell_ms, day, view)"
        " VALUES ($1, $2, to_timestamp($3 / 1000.0), $4, $5, to_timestamp($3 / 1000.0)::date, $6)",
        [
            (BOB, PICTURE, ago(48), 0, 6_000, 1),
            (BOB, ANSWER, ago(47), 1, 1_000, 2),
            (BOB, GONE, ago(46), 2, 1_000, 2),
            (BOB, OLD, ago(24 * 80), 0, 1_000, 1),
        ],
    )
    await post.execute(
        "INSERT INTO engagements (post_id, actor_id, at, kind) VALUES ($1, $2, to_timestamp($3 / 1000.0), 1)",
        PICTURE,
        BOB,
        float(ago(47.9)),
    )
    await post.execute(
        "INSERT INTO feedback (post_id, actor_id, at, kind) VALUES ($1, $2, to_timestamp($3 / 1000.0), 2)",
        ANSWER,
        BOB,
        float(ago(1)),
    )
    await graph.execute("INSERT INTO follows (follower_id, followee_id, favourite) VALUES (2, 1, true), (2, 3, false)")
    await graph.execute("INSERT INTO pulled_authors (author_id, entered_version) VALUES (3, 1)")
    await graph.execute("INSERT INTO view_choices (user_id, view) VALUES (2, 1), (2, 0), (1, 1)")
    await post.close()
    await graph.close()


def feedctl(server: Postgres, directory: Path, *words: object, only: str | None = None) -> Result:
    dsns = {name: server.dsn(name) for name in ("post", "graph") if only in (None, name)}
    state = directory / "state.json"
    state.write_text(json.dumps({"gateway": "", "grpc": {}, "postgres": dsns}))
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["--state", str(state), "rank", *map(str, words)])


def test_an_export_holds_what_was_seen_and_done_in_its_days_and_no_text(server: Postgres, tmp_path: Path) -> None:
    result = feedctl(server, tmp_path, "export", tmp_path / "log.gz", "--days", 30)
    assert result.exit_code == 0, result.output
    assert "3 impressions, 3 engagements, 2 posts" in result.output
    log = read(tmp_path / "log.gz")
    # A post that was deleted is in no log, and nothing is that was longer ago.
    assert log.posts["post"].tolist() == [PICTURE, ANSWER]
    assert log.posts["at"].tolist() == [ago(60), ago(50)]
    assert (log.posts["media"].tolist(), log.posts["reply"].tolist()) == ([True, False], [False, True])
    assert log.impressions["post"].tolist() == [PICTURE, ANSWER, GONE]
    assert log.impressions["dwell_ms"].tolist() == [6_000, 1_000, 1_000]
    assert log.impressions["ranked"].tolist() == [False, True, True]
    rows: list[tuple[int, int, int, int]] = log.engagements.tolist()
    done = [(actor, post, at, ENGAGEMENTS[kind]) for actor, post, at, kind in rows]
    assert done == [
        (CAT, PICTURE, ago(50), "reply"),
        (BOB, PICTURE, ago(47.9), "like"),
        (BOB, ANSWER, ago(1), "hide"),
    ]
    assert (log.favourites.tolist(), log.pulled.tolist()) == ([[BOB, ANN]], [CAT])


def test_a_pseudonymised_export_holds_no_id(server: Postgres, tmp_path: Path) -> None:
    assert feedctl(server, tmp_path, "export", tmp_path / "log.gz", "--pseudonymise").exit_code == 0
    log = read(tmp_path / "log.gz")
    assert len(log.impressions) == 3
    assert not set(log.impressions["viewer"].tolist()) & {ANN, BOB, CAT}
    assert not set(log.impressions["post"].tolist()) & {OLD, PICTURE, ANSWER, GONE}


def test_figures_are_shown_for_each_view(server: Postgres, tmp_path: Path) -> None:
    result = feedctl(server, tmp_path, "figures", "--days", 7)
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.output.splitlines() if "│" in line]
    shown = {row[0]: row[1:] for row in rows}
    assert shown["impressions"] == ["1", "1"]
    assert shown["like, per 1,000 of these"] == ["1000.0", "0.0"]
    assert shown["switches to this view"] == ["1", "2"]


def test_too_little_to_learn_from_is_told(server: Postgres, tmp_path: Path) -> None:
    result = feedctl(server, tmp_path, "train", "--out", tmp_path / "model")
    assert result.exit_code == 1
    assert "there are 2 impressions of known posts" in result.output


def test_a_mesh_of_which_an_address_is_missing_is_told(server: Postgres, tmp_path: Path) -> None:
    result = feedctl(server, tmp_path, "export", tmp_path / "log.gz", only="post")
    assert (result.exit_code, result.output) == (1, "Error: no address of the database of graph\n")


@pytest.mark.parametrize("dsn", ["postgresql://postgres@127.0.0.1:1/post", "nonsense"])
def test_a_database_that_cannot_be_reached_is_told_in_one_line(server: Postgres, tmp_path: Path, dsn: str) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"gateway": "", "grpc": {}, "postgres": {"post": dsn, "graph": dsn}}))
    words = ["--state", str(state), "rank", "train", "--out", str(tmp_path / "model")]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, words)
    assert result.exit_code == 1
    assert result.output.startswith("Error: the database of post cannot be reached: ")
    assert len(result.output.splitlines()) == 1


async def fill(server: Postgres) -> None:
    """As many impressions as something can be learned from, of the latest days."""
    log, later = log_of(3_000), ago(24 * 25) - BEGIN_MS
    post = await asyncpg.connect(server.dsn("post"))
    ids = [first_id_at(row["at"] + later) + number for number, row in enumerate(log.posts)]
    await post.copy_records_to_table(
        "posts",
        columns=("id", "author_id", "content", "media"),
        records=[
            (ids[i], int(row["author"]), "text", "[{}]" if row["media"] else "[]") for i, row in enumerate(log.posts)
        ],
    )
    await post.executemany(
        "INSERT INTO impressions (viewer_id, post_id, at, position, dwell_ms, day, view)"
        " VALUES ($1, $2, to_timestamp($3 / 1000.0), 0, $4, to_timestamp($3 / 1000.0)::date, 1) ON CONFLICT DO NOTHING",
        [
            (int(row["viewer"]), ids[int(row["post"]) - 1], int(row["at"]) + later, int(row["dwell_ms"]))
            for row in log.impressions
        ],
    )
    await post.close()


def test_a_model_is_trained_from_a_mesh(server: Postgres, tmp_path: Path) -> None:
    asyncio.run(fill(server))
    result = feedctl(server, tmp_path, "train", "--out", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert read_model(tmp_path / "model").version in result.output
