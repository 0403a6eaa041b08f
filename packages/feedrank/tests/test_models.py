"""Whoever serves asks for a model by path, and gets one that says what it is."""

from pathlib import Path

import numpy as np
import pytest
from feedrank import model_file, models
from feedrank.baseline import Baseline
from feedrank.features import FEATURES, NEUTRAL
from feedrank.signals import PREDICTED
from feedrank.trees import Forest

FOREST: Forest = {signal: [0.0] for signal in PREDICTED}


def test_without_a_path_the_baseline_serves() -> None:
    model = models.load(None)
    assert isinstance(model, Baseline)
    assert (model.version, model.trained_at_ms) == ("baseline-1", 0)


def test_a_trained_model_is_loaded_by_path_and_says_which_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    version = model_file.write(path, FOREST, trained_at_ms=1_767_225_599_000, calibration=[(1.0, 2.0)] * 5)
    model = models.load(path)
    assert (model.version, model.trained_at_ms) == (version, 1_767_225_599_000)
    np.testing.assert_allclose(model.predict(NEUTRAL[None, :]), 1 / (1 + np.exp(-2.0)), rtol=1e-6)
    assert model.effects(NEUTRAL[None, :], np.ones(len(PREDICTED))).shape == (1, len(FEATURES))


def test_a_path_without_a_model_is_an_error_and_not_the_baseline(tmp_path: Path) -> None:
    with pytest.raises(models.ModelError, match="the model cannot be read"):
        models.load(tmp_path / "nowhere.json")
