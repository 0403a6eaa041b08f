"""A process as the mesh expects one, in its smallest form. What it does wrong is chosen by the environment."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import FrameType

import grpc
from grpc_health.v1 import health_pb2

trouble = os.environ.get("TOY_TROUBLE", "")
if sys.argv[1:] == ["migrate"]:
    print("migrated", os.environ["FEED_POSTGRES_DSN"], flush=True)
    sys.exit(3 if trouble == "migrate" else 0)
if trouble == "start":
    sys.exit('{"level": "critical", "message": "no good: the toy is broken"}')
if trouble == "later":
    Event().wait(0.3)
    sys.exit("it went well for a moment")

stopped = Event()


def stop(_signal: int, _frame: FrameType | None) -> None:
    stopped.set()


def check(_request: health_pb2.HealthCheckRequest, _context: grpc.ServicerContext) -> health_pb2.HealthCheckResponse:
    return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
method = grpc.unary_unary_rpc_method_handler(
    check,
    request_deserializer=health_pb2.HealthCheckRequest.FromString,
    response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
)
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method})])
if trouble == "crash":
    Event().wait(0.5)
try:
    server.add_insecure_port(os.environ["FEED_GRPC_LISTEN"])
except RuntimeError as error:
    sys.exit(str(error))
server.start()
print(f"ROLE={' '.join(sys.argv[1:])}", flush=True)
for name in sorted(os.environ):
    print(f"{name}={os.environ[name]}", flush=True)
if trouble == "soon":
    time.sleep(1)
    sys.exit("one second was all")
# Python attends to signals between two waits even where the system gave them to a thread of gRPC.
while not stopped.wait(0.05):
    pass
server.stop(1).wait()
