#!/bin/sh
# Half of P1's load for MINUTES, everything read back, RSS sampled; good when RSS stays within 5 % of its median.
#   bench/soak.sh MINUTES [--system perigee|kafka] [--raw FILE]      exit 1: not flat, or something was lost
exec python3 "$(dirname "$0")/drive/soak.py" "$@"
