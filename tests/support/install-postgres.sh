#!/bin/sh
# Installs Debian's PostgreSQL, if this user is root and it is missing. Tests start servers of their own, as the user postgres.
# Without it, the tests that need it print one SKIPPED line.
command -v initdb >/dev/null && exit 0
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "installing PostgreSQL for the tests"
# The package would create and start a cluster.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
install() { DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends postgresql >/dev/null 2>&1; }
install || { apt-get update -qq >/dev/null 2>&1 && install; }
exit 0
