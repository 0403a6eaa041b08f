"""The options on which servers and channels must agree."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The largest message. The largest legal one, a batch of 100 posts of the greatest length, is about 8 MiB."""

MAX_REQUEST_BYTES = 1024 * 1024
"""The largest request. The largest legal one, a post of the greatest length, is about 90 KiB; a list of millions of ids
would hold up everybody else while it is looked at, only to be refused."""

KEEPALIVE_SECONDS = 30

KEEPALIVE: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
"""A dead peer is noticed within 35 seconds, also on an idle connection."""

SERVER_KEEPALIVE: tuple[tuple[str, int], ...] = (
    *KEEPALIVE,
    # Servers must allow pings more often than clients send them, or they close the connection ("too many pings").
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 500),
)
