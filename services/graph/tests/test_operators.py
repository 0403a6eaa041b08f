"""Who is an operator."""

import pytest
from feedkit.errors import PermissionDenied
from graph_service.operators import Operators


@pytest.mark.parametrize("authorization", ["Bearer sésame", "bearer sésame", "BEARER sésame"])
def test_whoever_has_the_token_is_one(authorization: str):
    Operators("sésame").require([authorization])


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Bearer sesame", "sésame", "Bearer  sésame"])
def test_nobody_else_is_one(authorization: str):
    with pytest.raises(PermissionDenied) as caught:
        Operators("sésame").require([authorization])
    assert caught.value.reason == "OPERATOR_REQUIRED"


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Bearer x"])
def test_without_a_token_nobody_is_one(authorization: str):
    with pytest.raises(PermissionDenied):
        Operators("").require([authorization])


@pytest.mark.parametrize("authorizations", [[], ["Bearer sésame", "Bearer other"], ["Bearer sésame", "Bearer sésame"]])
def test_it_is_told_once(authorizations: list[str]):
    with pytest.raises(PermissionDenied):
        Operators("sésame").require(authorizations)
