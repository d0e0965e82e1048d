#!/usr/bin/env bash
# Kill -9 rounds under load, judged by the history checker: kill9.sh ROUNDS [--shards N] [--seed S] [--broker perigee|kafka] [--keep DIR]
ulimit -n 65536 2>/dev/null
exec python3 "$(dirname "$0")/kill9.py" "$@"
