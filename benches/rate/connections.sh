#!/bin/sh
# System calls of C and Rust for the same RC connections, loader and libraries included:
#
#     cargo build --release -p proverbs-rate
#     cargo xtask soft-roce -- benches/rate/connections.sh target/release/connections
#
# Where C needs 714, Rust may have 46 more. It fails if there are more.
set -eu

rust=$1
device=${PROVERBS_DEVICE:-rxe0}
gid=${PROVERBS_GID_INDEX:-1}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
gcc -std=gnu11 -O2 -Wall -o "$dir/c" "$(dirname "$0")/connections.c" -libverbs

# calls PROGRAM COUNT
calls() {
    strace -f -c -o "$dir/out" "$1" "$device" "$gid" "$2"
    awk '$NF == "total" { print ($4 ~ /^[0-9]+$/) ? $4 : $3 }' "$dir/out"
}

for count in 2 100; do
    c=$(calls "$dir/c" $count)
    r=$(calls "$rust" $count)
    echo "$count connections: C $c, Rust $r, $((r - c)) more"
done
[ $((r - c)) -le 46 ]
