"""What a reader is told of a post's score."""

import numpy as np
from feedrank.features import DEFINITIONS, FEATURES
from feedrank.signals import PREDICTED
from timeline_service.explanations import MOST_FACTORS, reasons

WEIGHTS = (1.0, 3.0, 2.0, 0.3, -10.0)


def factors(effects: dict[str, float]) -> list[str]:
    """The features that are told of a post, whose other features had no effect."""
    row = np.array([[effects.get(feature, 0.0) for feature in FEATURES]], np.float32)
    [reason] = reasons(row, row, np.full((1, len(PREDICTED)), 0.1), WEIGHTS)
    return [factor.feature for factor in reason.factors]


def test_the_weightiest_factors_are_told_whichever_way_they_weighed() -> None:
    assert factors({"age": -0.2, "affinity": 0.1, "seen": -0.7}) == ["seen", "age", "affinity"]


def test_only_so_many_are_told_and_none_that_had_no_effect() -> None:
    assert len(factors(dict.fromkeys(FEATURES, 1.0))) == MOST_FACTORS
    assert factors({}) == []


def test_what_others_have_against_an_author_is_not_told_however_much_it_weighed() -> None:
    confidential = [feature.name for feature in DEFINITIONS if not feature.told]
    assert confidential == ["author_negative"]
    assert factors({"author_negative": -9.0, "age": -0.1}) == ["age"]
