#!/bin/sh
# Installs Debian's Chromium, if this user is root and it is missing. Tests of pages run in it, headless.
# Without it, the tests that need it print one SKIPPED line. Inter is the font of the screenshots in docs/.
for name in chromium chromium-browser google-chrome; do command -v "$name" >/dev/null && exit 0; done
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "installing Chromium for the tests"
install() { DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium fonts-inter >/dev/null 2>&1; }
install || { apt-get update -qq >/dev/null 2>&1 && install; }
exit 0
