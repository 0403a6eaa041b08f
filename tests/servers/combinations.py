"""What the suite is run on, by the names that `DEVMESH_SERVERS` gives: `tests.servers.combinations:REAL`."""

from devmesh.servers import Servers

from tests.servers.apache_kafka import ApacheKafka
from tests.servers.pgbouncer import PgBouncer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import Redis

_DURABLE = frozenset({"postgres", "pooler", "kafka"})

REAL = Servers(kafka=ApacheKafka, redis=Redis, pooler=PgBouncer, durable=_DURABLE)
CLUSTER = Servers(kafka=ApacheKafka, redis=RedisCluster, pooler=PgBouncer, durable=_DURABLE)
