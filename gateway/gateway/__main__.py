"""`python -m gateway`: the public HTTP API."""

from feedkit.server import Process, main

from gateway import app, http_server, identity
from gateway.config import GatewaySettings
from gateway.routes.health import Health
from gateway.services import open_services


async def run(process: Process, settings: GatewaySettings) -> None:
    """Wire everything together and serve."""
    identity.check_mode(settings)
    services, checks = await open_services(process, settings)
    health = Health()
    await http_server.serve(process, settings, app.create(services, health, settings), health, checks)


if __name__ == "__main__":
    main("gateway", GatewaySettings, run)
