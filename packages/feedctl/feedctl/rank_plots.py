"""Pictures of how well signals are predicted: how reliable probabilities are, and how well they tell cases apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from feedrank.evaluation import CHRONOLOGICAL, Quality, roc
from feedrank.models import Model
from feedrank.replay import Examples
from feedrank.signals import PREDICTED


def plot(directory: Path, examples: Examples, models: Mapping[str, Model], qualities: Sequence[Quality]) -> list[Path]:
    """Draw one picture for each signal into a directory, which is made; returns the files. Raises OSError.

    `qualities` are those of the `models` on the `examples`.
    """
    import matplotlib as untyped_matplotlib

    matplotlib = cast("Any", untyped_matplotlib)
    matplotlib.use("Agg")
    from matplotlib import pyplot as untyped_pyplot

    pyplot = cast("Any", untyped_pyplot)
    directory.mkdir(parents=True, exist_ok=True)
    predictions = {name: model.predict(examples.features) for name, model in models.items()}
    recency = examples.created_at_ms - examples.shown_at_ms
    paths: list[Path] = []
    for column, signal in enumerate(PREDICTED):
        figure, (reliable, telling) = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
        figure.suptitle(f"{signal}: {int(examples.labels[:, column].sum()):,} of {len(examples):,} impressions")
        scores = {name: predicted[:, column] for name, predicted in predictions.items()} | {CHRONOLOGICAL: recency}
        for quality in (quality for quality in qualities if quality.signal == signal):
            if quality.reliability:
                label = f"{quality.predictor}, error {quality.calibration_error:.4f}"
                bins = quality.reliability
                reliable.plot([b.predicted for b in bins], [b.observed for b in bins], marker="o", label=label)
            label = f"{quality.predictor}, AUC {quality.auc.value:.3f}"
            telling.plot(*roc(scores[quality.predictor], examples.labels[:, column]), label=label)
        _finish(reliable, "Reliability", "predicted", "observed", max(reliable.get_xlim()[1], reliable.get_ylim()[1]))
        _finish(telling, "ROC", "false positive rate", "true positive rate", 1.0)
        paths.append(directory / f"{signal}.png")
        figure.savefig(paths[-1], dpi=110)
        pyplot.close(figure)
    return paths


def _finish(axes: Any, title: str, across: str, up: str, most: float) -> None:
    """Name a drawing and its axes, and draw what is no better than chance, or perfectly calibrated."""
    axes.plot([0, most], [0, most], color="grey", linewidth=0.8, linestyle="--")
    axes.set(title=title, xlabel=across, ylabel=up, xlim=(0, most), ylim=(0, most))
    axes.legend(loc="best", fontsize=8)
