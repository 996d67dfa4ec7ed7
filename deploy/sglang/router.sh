#!/bin/sh
# One address in front of several draft servers that serve the same folder with the same flags: sh router.sh URL URL …
# Needs the package sglang-router (0.3.2 was tried). Asks for a study go where its features are cached; a server that fails is left alone for a while.
set -eu
test -n "${SGLANG_API_KEY:-}" || { echo "SGLANG_API_KEY is empty: set it to the servers' key"; exit 1; }
test "$#" -gt 0 || { echo "name the servers: sh router.sh http://sglang:30000 …"; exit 1; }
exec python3 -m sglang_router.launch_router --host "${ROUTER_HOST:-0.0.0.0}" --port "${ROUTER_PORT:-30000}" --worker-urls "$@" \
    --api-key "$SGLANG_API_KEY" --policy cache_aware --worker-startup-timeout-secs 1800 --request-timeout-secs 600 --disable-retries --log-level warn
