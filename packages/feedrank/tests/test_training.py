"""What is learned predicts what comes later, is calibrated, is the same each time; what cannot be learned is said."""

import numpy as np
import pytest
from feedrank import model_file, models
from feedrank.evaluation import CHRONOLOGICAL, Quality, evaluate, order_quality, roc
from feedrank.features import FEATURES, NEUTRAL
from feedrank.metrics import auc
from feedrank.replay import Examples
from feedrank.signals import PREDICTED
from feedrank.training import LEAVES, TREES, Split, TooFewExamples, Trained, platt, split, train
from feedrank.trees import leaves

LIKE, REPLY, REPOST, DWELL, NEGATIVE = range(len(PREDICTED))
AFFINITY, MEDIA = FEATURES.index("affinity"), FEATURES.index("media")


def examples_of(count: int = 6_000, seed: int = 1) -> Examples:
    """Who has affinity likes, and dwells on pictures only without it, which no weighted sum can say. Nobody hides."""
    chance = np.random.default_rng(seed)
    features = np.tile(NEUTRAL, (count, 1))
    features[:, AFFINITY], features[:, MEDIA] = chance.normal(size=count), chance.random(count) < 0.5
    warm, media = features[:, AFFINITY] > 0, features[:, MEDIA] > 0
    labels = np.zeros((count, len(PREDICTED)), np.bool_)
    labels[:, LIKE] = chance.random(count) < np.where(warm, 0.3, 0.05)
    labels[:, DWELL] = chance.random(count) < np.where(warm ^ media, 0.6, 0.1)
    labels[:, REPLY] = labels[:, REPOST] = chance.random(count) < 0.1
    times = np.sort(chance.integers(0, 10**9, count))
    return Examples(
        features=features,
        labels=labels,
        shown_at_ms=times,
        created_at_ms=times - chance.integers(0, 10**7, count),
        viewer_ids=chance.integers(1, 80, count),
        ranked=np.zeros(count, np.bool_),
    )


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(examples_of())


@pytest.fixture(scope="module")
def trained(parts: Split) -> Trained:
    return train(parts)


@pytest.fixture(scope="module")
def model(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> models.Model:
    path = tmp_path_factory.mktemp("model") / "model.feedrank"
    model_file.write(path, trained.forest, trained_at_ms=1, neutral=trained.neutral, calibration=trained.calibration)
    return models.load(path)


@pytest.fixture(scope="module")
def qualities(model: models.Model, parts: Split) -> dict[tuple[str, str], Quality]:
    found = evaluate(parts.test, {"trained": model, "baseline": models.load(None)})
    return {(quality.signal, quality.predictor): quality for quality in found}


def test_parts_follow_one_another_in_time(parts: Split) -> None:
    assert parts.training.shown_at_ms.max() < parts.validation.shown_at_ms.min()
    assert parts.validation.shown_at_ms.max() < parts.test.shown_at_ms.min()
    assert sum(len(part) for part in (parts.training, parts.validation, parts.test)) == 6_000


def test_what_was_learned_holds_for_what_comes_later(qualities: dict[tuple[str, str], Quality]) -> None:
    dwell = qualities["dwell", "trained"]
    assert dwell.auc.low > 0.75 > qualities["dwell", "baseline"].auc.high
    assert dwell.log_loss < qualities["dwell", "baseline"].log_loss
    assert qualities["like", "trained"].auc.low > 0.6
    assert qualities["dwell", CHRONOLOGICAL].auc.high < 0.6


def test_predictions_come_true_as_often_as_they_say(qualities: dict[tuple[str, str], Quality]) -> None:
    for signal in ("like", "reply", "repost", "dwell"):
        assert qualities[signal, "trained"].calibration_error < 0.05, signal


def test_order_alone_says_nothing_of_probabilities(qualities: dict[tuple[str, str], Quality]) -> None:
    order = qualities["like", CHRONOLOGICAL]
    assert (order.reliability, order.as_json()["log_loss"]) == ((), None)


def test_the_order_of_what_was_learned_is_better_than_that_of_time(model: models.Model, parts: Split) -> None:
    found = order_quality(parts.test, {"trained": model}, (0, 0, 0, 1, 0))
    assert found["trained"].low > found[CHRONOLOGICAL].high
    assert found["trained"].value < 1.0


def test_days_on_which_nothing_of_worth_happened_say_nothing(model: models.Model, parts: Split) -> None:
    found = order_quality(parts.test, {"trained": model}, (0, 0, 0, 0, 1))
    assert np.isnan(found["trained"].value)


def test_a_signal_that_hardly_happens_has_its_usual_rate_for_all(trained: Trained, model: models.Model) -> None:
    assert trained.forest["negative"] == []
    predicted = model.predict(examples_of(50).features)[:, NEGATIVE]
    assert len(np.unique(predicted)) == 1
    assert 0 < predicted[0] < 0.001


def test_trees_are_few_and_small_enough_to_be_served(trained: Trained) -> None:
    for trees in trained.forest.values():
        assert len(trees) <= TREES
        assert all(len(list(leaves(tree))) <= LEAVES for tree in trees)


def test_the_same_examples_give_the_same_model(parts: Split, trained: Trained) -> None:
    again = train(parts)
    assert (again.forest, again.calibration) == (trained.forest, trained.calibration)


def test_too_few_impressions_are_refused_with_how_many_are_needed() -> None:
    with pytest.raises(TooFewExamples, match=r"there are 999 impressions .* at least 1,000"):
        split(examples_of(999))


def test_impressions_of_one_moment_cannot_be_split() -> None:
    examples = examples_of(2_000)
    examples.shown_at_ms[:] = 5
    with pytest.raises(TooFewExamples, match="cannot be split by time"):
        split(examples)


def test_where_nothing_happens_often_enough_there_is_no_model() -> None:
    examples = examples_of(2_000)
    examples.labels[:] = False
    examples.labels[:3, LIKE] = True
    with pytest.raises(TooFewExamples, match="like 3/0, reply 0/0"):
        train(split(examples))


def test_calibration_finds_the_slope_and_intercept_with_which_things_happened() -> None:
    chance = np.random.default_rng(2)
    log_odds = chance.normal(size=50_000)
    labels = chance.random(50_000) < 1 / (1 + np.exp(-(0.5 * log_odds - 1)))
    assert platt(log_odds, labels) == pytest.approx((0.5, -1.0), abs=0.05)


def test_calibration_never_turns_an_order_around_and_is_finite_for_a_perfect_one() -> None:
    log_odds = np.linspace(-1, 1, 200)
    slope, intercept = platt(log_odds, log_odds < 0)
    assert (slope, intercept) == pytest.approx((0.0, 0.0), abs=0.1)
    assert np.isfinite(platt(log_odds, log_odds > 0)).all()


def test_the_area_under_the_curve_is_the_auc() -> None:
    chance = np.random.default_rng(3)
    scores, labels = chance.integers(0, 9, 300).astype(float), chance.random(300) < 0.3
    false, true = roc(scores, labels)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(true, false) == pytest.approx(auc(scores, labels))
