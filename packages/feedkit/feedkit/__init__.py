"""What every process of the mesh needs, one module a capability.

Pure, for domain code: `errors`, `cursor`. Everything else talks to the world: `config`, `logs`, `telemetry`, `deadline`,
`status`, `validation`, `server`, `channel`, `postgres`, `outbox` with its `outbox_relay`, `kafka`, `redis`.
"""
