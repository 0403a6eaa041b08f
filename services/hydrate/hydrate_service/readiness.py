"""When this process may be sent calls."""

import grpc
from feedkit.channel import Channel
from feedkit.errors import Unavailable
from feedkit.server import Check


def once_connected(channel: Channel, dependency: str) -> Check:
    """A check that passes for good as soon as the channel has been connected once.

    A service that is down later makes answers UNAVAILABLE, which callers can use; were this process to call itself not
    ready then, one outage would take every process above it away too.
    """
    connected = False

    async def check() -> None:
        nonlocal connected
        connected = connected or channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY
        if not connected:
            raise Unavailable.of_dependency(dependency)

    return check
