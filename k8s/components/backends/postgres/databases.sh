# Read once by the image's entry point, when the volume is empty and nobody can connect from outside yet.
# Two databases, each owned by a role of its own that cannot enter the other: services read no other's tables.
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set post_password="$POST_PASSWORD" --set graph_password="$GRAPH_PASSWORD" <<'SQL'
CREATE ROLE post LOGIN PASSWORD :'post_password';
CREATE ROLE graph LOGIN PASSWORD :'graph_password';
CREATE DATABASE post OWNER post;
CREATE DATABASE graph OWNER graph;
REVOKE ALL ON DATABASE post, graph, postgres FROM PUBLIC;
SQL
