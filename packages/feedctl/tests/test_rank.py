"""`feedctl rank` without a mesh: models from a file, and the figures of views."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from feedctl.__main__ import main
from feedctl.rank_figures import coverages, figures
from feedctl.rank_mesh import Circle
from feedkit import feature_keys
from feedrank import dataset, features, replay, signals
from feedrank.dataset import IMPRESSION
from feedrank.log_file import write
from feedrank.model_file import read
from feedrank.models import load
from feedrank.signals import PREDICTED
from learnable_log import BEGIN_MS, DAY_MS, log_of

DAY = BEGIN_MS // DAY_MS


def feedctl(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["rank", *map(str, words)])


# --- training from a file ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A training of 4,000 impressions, and where its files are."""
    directory = tmp_path_factory.mktemp("rank")
    write(log_of(4_000), directory / "log.gz")
    words = ("--from", directory / "log.gz", "--out", directory / "model.feedrank", "--plots", directory / "plots")
    return feedctl("train", *words), directory


def test_it_shows_each_signal_by_each_predictor(trained: tuple[Result, Path]) -> None:
    result, _ = trained
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")] for line in result.output.splitlines() if "│" in line]
    predictors = [row[3] for row in rows if row[3] in {"trained", "baseline", "chronological"}]
    assert predictors == ["trained", "baseline", "chronological"] * len(PREDICTED)
    assert "training" in result.output
    assert "2024-10-0" in result.output


def test_it_shows_how_good_the_orders_are(trained: tuple[Result, Path]) -> None:
    [line] = [line for line in trained[0].output.splitlines() if line.startswith("NDCG@20")]
    figures = dict(re.findall(r"(trained|baseline|chronological) (0\.\d+)", line))
    assert float(figures["trained"]) > float(figures["chronological"])


@pytest.mark.parametrize("weights", ["like", "like=much", "love=1", "like=inf"])
def test_weights_that_are_none_are_refused(tmp_path: Path, weights: str) -> None:
    result = feedctl("train", "--from", tmp_path / "log.gz", "--out", tmp_path / "model", "--weights", weights)
    assert result.exit_code == 2
    assert weights in result.output


def test_the_model_is_there_under_the_version_that_is_shown_with_what_it_is_worth(
    trained: tuple[Result, Path],
) -> None:
    result, directory = trained
    file = read(directory / "model.feedrank")
    assert f"version {file.version}" in result.output
    assert load(directory / "model.feedrank").version == file.version
    [dwell] = [row for row in file.metrics["test"] if (row["signal"], row["predictor"]) == ("dwell", "trained")]
    assert dwell["auc"] > 0.7


def test_signals_that_cannot_be_learned_are_named(trained: tuple[Result, Path]) -> None:
    result, _ = trained
    for signal in ("reply", "repost", "negative"):
        assert f"{signal} happened too rarely to be learned" in result.output
    assert "dwell happened too rarely" not in result.output


def test_there_is_a_picture_for_each_signal(trained: tuple[Result, Path]) -> None:
    _, directory = trained
    pictures = sorted(path.name for path in (directory / "plots").iterdir())
    assert pictures == sorted(f"{signal}.png" for signal in PREDICTED)
    assert all((directory / "plots" / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_too_little_is_refused_with_how_much_is_needed_and_leaves_no_model(tmp_path: Path) -> None:
    write(log_of(300), tmp_path / "log.gz")
    result = feedctl("train", "--from", tmp_path / "log.gz", "--out", tmp_path / "model")
    assert result.exit_code == 1
    assert "there are 300 impressions" in result.output
    assert "at least 1,000 are needed" in result.output
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", ["log.gz", "missing.gz"])
def test_a_file_that_cannot_be_read_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "log.gz").write_text("no log")
    result = feedctl("train", "--from", tmp_path / name, "--out", tmp_path / "model")
    assert result.exit_code == 1
    assert name in result.output
    assert len(result.output.splitlines()) == 1


def test_where_the_model_cannot_be_written_is_told(tmp_path: Path) -> None:
    write(log_of(2_000), tmp_path / "log.gz")
    result = feedctl("train", "--from", tmp_path / "log.gz", "--out", tmp_path / "nowhere" / "model")
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.output


# --- figures ----------------------------------------------------------------------------------------------------------


def test_coverage_is_of_those_followees_who_wrote_that_day() -> None:
    seen = np.zeros(3, IMPRESSION)
    seen["viewer"], seen["at"] = [7, 7, 8], [BEGIN_MS, BEGIN_MS + 5, BEGIN_MS + DAY_MS]
    circle = Circle(
        follows={7: frozenset({1, 2, 3, 4, 5}), 8: frozenset({1})},
        writers={DAY: frozenset({1, 2, 3, 4, 99}), DAY + 1: frozenset({2})},
        chosen={"latest": 0, "ranked": 0},
    )
    # One of the two whom 7 saw is no followee who wrote; nobody wrote whom 8 follows.
    assert coverages(seen, np.array([1, 5, 1]), circle) == [0.25]


def test_figures_are_of_each_view_alone() -> None:
    log = log_of(2_000)
    everybody = frozenset(log.posts["author"].tolist())
    circle = Circle(
        follows=dict.fromkeys(range(100, 140), everybody),
        writers={DAY + day: everybody for day in range(10)},
        chosen={"latest": 3, "ranked": 4},
    )
    latest, ranked = figures(log, circle)
    assert (latest.view, ranked.view, latest.chosen, ranked.chosen) == ("latest", "ranked", 3, 4)
    assert latest.impressions + ranked.impressions == 2_000
    assert latest.judged == latest.impressions
    dwelt = log.impressions["dwell_ms"][log.impressions["ranked"]] >= 5_000
    assert ranked.per_thousand["dwell"] == pytest.approx(1_000 * dwelt.mean())
    assert ranked.per_thousand["negative"] == 0.0
    assert 0 < ranked.coverage <= 1
    assert 0 < ranked.gini < 0.5


def test_what_nobody_looked_at_has_no_figures() -> None:
    log = log_of(50)
    log.impressions["ranked"] = False
    circle = Circle(follows={}, writers={}, chosen={"latest": 0, "ranked": 0})
    _, ranked = figures(log, circle)
    assert ranked.impressions == 0
    assert all(np.isnan(figure) for figure in (ranked.coverage, ranked.gini, ranked.top_share))
    assert np.isnan(ranked.per_thousand["like"])


# --- what is learned from is what is served with ----------------------------------------------------------------------


def test_the_replay_counts_as_the_mesh_does() -> None:
    """Features are kept by feedkit and fanout, and replayed by feedrank, which may not import them."""
    assert signals.OBSERVED == feature_keys.SIGNALS
    assert signals.DWELL_SECONDS == feature_keys.DWELL_SECONDS
    for name in ("POST_HALF_LIFE", "AUTHOR_HALF_LIFE", "AFFINITY_HALF_LIFE"):
        assert getattr(features, name) == getattr(feature_keys, name)
    assert replay.AFFINITY_OF_DWELL == feature_keys.AFFINITY_OF_DWELL
    for kind, affinity in (
        (dataset.LIKE, feature_keys.AFFINITY_OF_LIKE),
        (dataset.UNLIKE, -feature_keys.AFFINITY_OF_LIKE),
        (dataset.REPOST, feature_keys.AFFINITY_OF_REPOST),
        (dataset.UNREPOST, -feature_keys.AFFINITY_OF_REPOST),
        (dataset.REPLY, feature_keys.AFFINITY_OF_REPLY),
        (dataset.UNREPLY, -feature_keys.AFFINITY_OF_REPLY),
        (dataset.LESS_LIKE_THIS, feature_keys.AFFINITY_OF_LESS),
        (dataset.HIDE, feature_keys.AFFINITY_OF_HIDE),
    ):
        assert replay.AFFINITY_OF_ENGAGEMENT[kind] == affinity
