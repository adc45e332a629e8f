#!/bin/sh
# C and Rust in turn on one RDMA device: latency of rc_pingpong, and the message rate of chains.
#
#     compare.sh EXAMPLES RATE-RUST RATE-C ROUNDS all|polled-latency|others
#
# The device is $PROVERBS_DEVICE (rxe0) with GID index $PROVERBS_GID_INDEX (1). One line for each run:
# WHAT MODE LANGUAGE NUMBER, the number in µs a round trip or in seconds for $messages messages.
set -u

examples=$1 rate_rust=$2 rate_c=$3 rounds=$4 part=$5
device=${PROVERBS_DEVICE:-rxe0}
gid=${PROVERBS_GID_INDEX:-1}
iters=400
messages=3200
port=19515
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

fail() {
    echo "compare.sh: $*" >&2
    cat "$out" >&2
    exit 1
}

# Waits until somebody listens on TCP port $1, but no longer than process $2 lives.
listening() {
    hex=$(printf %04X "$1")
    until cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$hex [0-9A-F]*:0000 0A "; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

# latency MODE LANGUAGE: both ends in one language, 64 bytes.
latency() {
    case $2 in
    rust) program=$examples/rc_pingpong ;;
    c) program=ibv_rc_pingpong ;;
    esac
    port=$((port + 1))
    set -- "$1" "$2" -d "$device" -g "$gid" -s 64 -n "$iters" -p "$port"
    [ "$1" = polled ] || set -- "$@" -e
    mode=$1 language=$2
    shift 2
    timeout 120 "$program" "$@" >/dev/null 2>"$out" &
    server=$!
    listening "$port" "$server" || fail "the server of $program is gone"
    timeout 120 "$program" "$@" 127.0.0.1 >"$out" 2>&1 || fail "$program failed"
    wait "$server" || fail "the server of $program failed"
    echo "latency $mode $language $(sed -n 's/.*= \([0-9.]*\) usec\/iter.*/\1/p' "$out")"
}

# rate CHAIN MODE LANGUAGE
rate() {
    case $3 in
    rust) program=$rate_rust ;;
    c) program=$rate_c ;;
    esac
    seconds=$(timeout 120 "$program" "$device" "$gid" "$messages" "$1" "$2" 2>"$out") || fail "$program failed"
    echo "chain$1 $2 $3 $seconds"
}

echo "messages $messages"
round=0
while [ "$round" -lt "$rounds" ]; do
    # Who comes first alternates, so that a machine that slows down slows both.
    if [ $((round % 2)) -eq 0 ]; then order="c rust"; else order="rust c"; fi
    for mode in polled events; do
        case $mode/$part in
        polled/others | events/polled-latency) ;;
        *) for language in $order; do latency "$mode" "$language"; done ;;
        esac
        [ "$part" != polled-latency ] || continue
        for chain in 1 4 16; do
            for language in $order; do rate "$chain" "$mode" "$language"; done
        done
    done
    round=$((round + 1))
    echo "pair $round of $rounds" >&2
done
