#!/usr/bin/env bash
# The part of the interface of postgres:18 that its users rely on. The first start, on an empty PGDATA:
#   POSTGRES_USER (postgres), POSTGRES_DB (as the user), POSTGRES_PASSWORD    each also as a file, named by NAME_FILE
#   POSTGRES_HOST_AUTH_METHOD (scram-sha-256)    how others than this container are let in; with `trust` no password is needed
#   POSTGRES_INITDB_ARGS
#   /docker-entrypoint-initdb.d/*.{sh,sql}       run in order, once, while nobody can connect from outside
set -Eeuo pipefail
shopt -s nullglob

refuse() {
  echo "docker-entrypoint.sh: $*" >&2
  exit 1
}

# setting NAME DEFAULT: sets NAME from itself, or from the file that NAME_FILE names.
setting() {
  local name=$1 file=$1_FILE
  if [ -n "${!file:-}" ]; then
    [ -z "${!name:-}" ] || refuse "$name and $file are both set"
    printf -v "$name" %s "$(< "${!file}")"
  fi
  [ -n "${!name:-}" ] || printf -v "$name" %s "$2"
  export "${name?}"
}

initialise() {
  [ -n "$POSTGRES_PASSWORD" ] || [ "$POSTGRES_HOST_AUTH_METHOD" = trust ] \
    || refuse "POSTGRES_PASSWORD must be set, or POSTGRES_HOST_AUTH_METHOD=trust"
  # Arguments are words of one variable, which is what makes them several.
  # shellcheck disable=SC2086
  initdb --username "$POSTGRES_USER" --pwfile <(printf '%s\n' "${POSTGRES_PASSWORD:-none}") $POSTGRES_INITDB_ARGS
  # As Debian's servers have it, whose clients look there. initdb writes the place that it was built for.
  printf "\nunix_socket_directories = '/var/run/postgresql'\n" >> "$PGDATA/postgresql.conf"
  printf '\nhost all all all %s\n' "$POSTGRES_HOST_AUTH_METHOD" >> "$PGDATA/pg_hba.conf"

  pg_ctl --wait start -o "-c listen_addresses= $*"
  if [ "$POSTGRES_DB" != postgres ]; then
    psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres --set name="$POSTGRES_DB" \
      <<< 'CREATE DATABASE :"name";'
  fi
  local script
  for script in /docker-entrypoint-initdb.d/*; do
    run_script "$script"
  done
  pg_ctl --wait --mode fast stop
}

run_script() {
  echo "docker-entrypoint.sh: running $1"
  case $1 in
    *.sh)
      if [ -x "$1" ]; then
        "$1"
      else
        # shellcheck source=/dev/null
        . "$1"
      fi
      ;;
    *.sql)
      psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --no-password --dbname "$POSTGRES_DB" --file "$1"
      ;;
    *) refuse "$1 is neither .sh nor .sql" ;;
  esac
}

case ${1:-} in
  -*) set -- postgres "$@" ;;
esac
if [ "${1:-}" = postgres ]; then
  mkdir -p "$PGDATA"
  if [ "$(id -u)" = 0 ]; then
    chown -R postgres:postgres "$PGDATA" /var/run/postgresql
    exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
  fi
  chmod 700 "$PGDATA"
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    setting POSTGRES_USER postgres
    setting POSTGRES_DB "$POSTGRES_USER"
    setting POSTGRES_PASSWORD ''
    setting POSTGRES_INITDB_ARGS ''
    : "${POSTGRES_HOST_AUTH_METHOD:=scram-sha-256}"
    initialise "${@:2}"
    unset POSTGRES_PASSWORD
  fi
fi
exec "$@"
