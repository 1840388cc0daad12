#!/bin/sh
# Unpacks Debian's package of Prometheus into .venv/prometheus, without installing it: the package would start a service.
# Without it, the tests that need it print one SKIPPED line.
[ -x .venv/prometheus/usr/bin/promtool ] && exit 0
command -v promtool >/dev/null && command -v prometheus >/dev/null && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 0
folder=$(mktemp -d) || exit 0
download() { (cd "$folder" && apt-get download -qq prometheus) >/dev/null 2>&1; }
download || { [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1 && download; }
set -- "$folder"/prometheus_*.deb
[ -e "$1" ] && dpkg-deb -x "$1" .venv/prometheus
rm -rf "$folder"
exit 0
