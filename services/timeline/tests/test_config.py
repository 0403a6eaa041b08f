"""What `timeline` refuses to be told, so that it is noticed at its start instead of at each read."""

import pytest
from pydantic import ValidationError
from timeline_service.config import RankingSettings


@pytest.mark.parametrize("seconds", [0.0001, 1e300], ids=["no time at all", "longer than Redis can count"])
def test_orders_are_kept_for_a_time_that_redis_understands(seconds: float) -> None:
    with pytest.raises(ValidationError, match="ranked_seconds"):
        RankingSettings.model_validate({"ranked_seconds": seconds})
