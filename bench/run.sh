#!/bin/sh
# Ratios of PERFORMANCE 3: perigee against the stubs and, if installed, Kafka. See bench/README.md.
#   bench/run.sh quick|full [--only P1-64k,P6] [--systems perigee,stub-fresh] [--reps N] [--out FILE]
# Broker on core 0, generator on core 1. quick: about 10 minutes; full: hours. Wants a quiet machine.
exec python3 "$(dirname "$0")/drive/legs.py" "$@"
