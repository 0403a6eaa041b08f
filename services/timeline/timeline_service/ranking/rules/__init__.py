"""The rules of the ranked view: they move posts, they never lose one.

*Score rules* change how much each score counts, one after the other. *Place rules* then decide on places, all of them in
one arrangement; where two cannot be kept at once, the one named first below wins.
"""

from dataclasses import dataclass

from timeline_service.ranking.rules.author_diversity import AuthorDiversity
from timeline_service.ranking.rules.freshness import Freshness
from timeline_service.ranking.rules.guaranteed_places import GuaranteedPlaces
from timeline_service.ranking.rules.head_share import HeadShare
from timeline_service.ranking.rules.hidden import Hidden
from timeline_service.ranking.rules.runs import Runs
from timeline_service.ranking.rules.score_rule import ScoreRule
from timeline_service.ranking.rules.seen import Seen
from timeline_service.ranking.rules.topic_diversity import TopicDiversity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules that are applied, in this order; by default none."""

    of_scores: tuple[ScoreRule, ...] = ()
    hidden: Hidden | None = None
    guaranteed_places: GuaranteedPlaces | None = None
    runs: Runs | None = None
    head_share: HeadShare | None = None

    def __post_init__(self) -> None:
        """Refuse windows in which nobody could tell whether both rules can be kept."""
        if self.guaranteed_places and self.head_share and self.guaranteed_places.within > self.head_share.window:
            raise ValueError("places are guaranteed further down than the window of the head accounts' share")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rules that are applied, in their order."""
        places = (self.hidden, self.guaranteed_places, self.runs, self.head_share)
        return (*(rule.name for rule in self.of_scores), *(rule.name for rule in places if rule))


ALL_RULES = Rules(
    of_scores=(Seen(), Freshness(), AuthorDiversity(), TopicDiversity()),
    hidden=Hidden(),
    guaranteed_places=GuaranteedPlaces(),
    runs=Runs(),
    head_share=HeadShare(),
)
"""Every rule, as it is where nobody configures it."""
