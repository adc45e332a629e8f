#!/bin/sh
# Counts the system calls of C and Rust for the same RC connections, including the loader and libraries:
#
#     cargo build --release -p proverbs-connections
#     gcc -O2 -o target/connections benches/connections/connections.c -libverbs
#     cargo xtask soft-roce -- benches/connections/connections.sh $PWD/target/release/proverbs-connections $PWD/target/connections
#
# For 100 connections Rust may make 46 more than C (760 instead of 714). Fails if there are more.
# `cargo xtask test interop` does all of this.
set -eu

rust=$1
c=$2
device=${PROVERBS_DEVICE:-rxe0}
gid=${PROVERBS_GID_INDEX:-1}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# calls PROGRAM COUNT: the number in the line `100.00 SECONDS USECS/CALL CALLS [ERRORS] total`.
calls() {
    strace -f -c -o "$out" "$1" "$device" "$gid" "$2"
    awk '$NF == "total" { print $4 }' "$out"
}

for count in 2 100; do
    of_c=$(calls "$c" $count)
    of_rust=$(calls "$rust" $count)
    echo "$count connections: C $of_c, Rust $of_rust, $((of_rust - of_c)) more"
done
[ $((of_rust - of_c)) -le 46 ]
