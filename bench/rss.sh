#!/bin/sh
# What a broker weighs and how fast it starts: P9, P10, P11, P12, P14, P15 as one JSON object.
#   bench/rss.sh [--system perigee|kafka|stub] [--only start,many,idle] [--starts N] [--partitions N]
exec python3 "$(dirname "$0")/drive/rss.py" "$@"
