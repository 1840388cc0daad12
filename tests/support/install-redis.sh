#!/bin/sh
# Installs Debian's Redis, if this user is root and it is missing. Tests start servers of their own.
# Without it, the tests that need it print one SKIPPED line.
command -v redis-server >/dev/null && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "installing Redis for the tests"
# The package would start a server.
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && trap 'rm -f $policy' EXIT; }
install() { DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends redis-server >/dev/null 2>&1; }
install || { apt-get update -qq >/dev/null 2>&1 && install; }
exit 0
