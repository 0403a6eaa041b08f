"""Which part of a follower count a follower is counted in."""

SHARDS = 16

_GOLDEN = 0x9E37_79B9_7F4A_7C15
_BITS = 64


def shard_of(follower_id: int) -> int:
    """The part, 0 to 15, of every followee's count in which a follower is counted; the same for ever.

    Fibonacci hashing: the top bits of a product spread even ids that follow a pattern, as those of an import do.
    """
    return (follower_id * _GOLDEN % (1 << _BITS)) * SHARDS >> _BITS
