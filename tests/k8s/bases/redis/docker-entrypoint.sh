#!/bin/sh
# As in the image that this one stands in for: options or a file alone are arguments of the server, which root does not run.
set -e

case $1 in
  -* | *.conf) set -- redis-server "$@" ;;
esac
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then
  chown redis:redis /data
  exec setpriv --reuid redis --regid redis --init-groups "$@"
fi
exec "$@"
