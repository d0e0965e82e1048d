#!/usr/bin/env bash
# Set up, build and run a broker for development: scripts/dev.sh [arguments of `perigee dev`]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
scripts/build.sh release perigee
exec build/release/perigee dev "$@"
