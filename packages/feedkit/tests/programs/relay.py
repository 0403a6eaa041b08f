"""The relay of an outbox, as a process of its own; its argument is the directory of the migrations that make the outbox."""

import sys
from pathlib import Path

from feedkit import outbox_relay
from feedkit.outbox_relay import RelaySettings
from feedkit.server import Process, main

MIGRATIONS = Path(sys.argv.pop())


async def run(process: Process, settings: RelaySettings) -> None:
    """Publish until stopped."""
    await outbox_relay.run(process, settings, MIGRATIONS)


if __name__ == "__main__":
    main("relay", RelaySettings, run)
