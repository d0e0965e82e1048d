#!/usr/bin/env bash
# Set up, build and run a broker for development: scripts/dev.sh [arguments of `perigee dev`]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
[ -x build/release/perigee ] || echo "building perigee (a minute the first time)" >&2
scripts/build.sh release perigee
exec build/release/perigee dev "$@"
