#!/bin/sh
# Builds disk_spike and prints one JSON line per leg; three rounds (about 12 minutes each), legs interleaved.
# At most 3 GB on disk at a time.
# usage: bench/spike/run.sh [DIR]     (DIR: an empty directory on the disk to be measured; removed afterwards)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d)}
bin=$dir/disk_spike
mkdir -p "$dir"
trap 'rm -rf "$dir"' EXIT
ulimit -n 20000
cc -std=gnu2x -O2 -D_GNU_SOURCE -Wall -Wextra -Wconversion -Wshadow -o "$bin" "$here/disk_spike.c"

warm() { # Touch and free 6 GB: the first touch of a guest page is slow and is not what is measured.
    python3 -c 'import mmap; m = mmap.mmap(-1, 6 << 30); [m.__setitem__(i, 1) for i in range(0, 6 << 30, 4096)]'
}
leg() {
    taskset -c 0 "$bin" "$@" "$dir/d"
    rm -rf "$dir/d"; mkdir -p "$dir/d"; sync -f "$dir"
}
mkdir -p "$dir/d"
for round in 1 2 3; do
    warm
    # Throughput: bytes as produced in large frames, odd sizes.
    for parts in 1 100 10000; do
        chunks='65597 1048637'; [ $parts = 10000 ] && chunks='16445 65597'
        for chunk in $chunks; do
            for way in 'buffered 0' 'behind 0' 'direct 0' 'direct 1'; do
                set -- $way
                leg "$1" $parts $chunk 2048 none 0 "$2" 8
            done
        done
    done
    # Commit: 4 KB appends, GROUP of them per sync, spread over the partitions.
    for parts in 1 8 9 100 10000; do
        for group in 1 8 64 256 1000; do
            [ $parts -le 9 ] && [ $group -gt 256 ] && continue
            for way in buffered direct; do
                leg $way $parts 4157 1024 auto $group 0 1.5
            done
        done
    done
    # One by one against syncfs, to find where they cross.
    for group in 1 2 3 4 8 16 32 100; do
        for policy in each syncfs; do
            leg buffered 1000 4157 1024 $policy $group 0 1.5
        done
    done
    # Large frames with a sync every 16 MB: what the synced class can reach. Here "behind" starts the write early.
    for parts in 1 100; do
        for way in 'buffered 0' 'buffered 1' 'behind 0' 'behind 1' 'direct 0' 'direct 1'; do
            set -- $way
            leg "$1" $parts 1048637 2048 auto 16 "$2" 8
        done
    done
done
