#!/bin/sh
# The asynchronous events of a port, as the example and rdma-core's ibv_asyncwatch tell them.
#
#     cargo build --release --examples
#     cargo xtask soft-roce -- sh tests/interop/asyncwatch.sh "$PWD/target/release/examples"
#
# It gives the device's network interface another address for a moment and takes it down and up, so it is for a
# guest only. The device is rxe0. The exit code is 1 if the two differ.
set -u

examples=${1:?usage: asyncwatch.sh DIRECTORY-OF-EXAMPLES}
netdev=$(cat /sys/class/infiniband/rxe0/parent) || exit 1
out=$(mktemp -d) || exit 1
seconds=$(sh "$(dirname "$0")/patience.sh")
trap 'rm -rf "$out"' EXIT

# waits FILE PATTERN: until a line of the file has the pattern.
waits() {
    end=$(($(date +%s) + seconds))
    until grep -q "$2" "$1"; do
        [ "$(date +%s)" -lt $end ] || {
            echo "FAIL  asyncwatch: no \"$2\" in:"
            cat "$1"
            exit 1
        }
        sleep 0.05
    done
}

"$examples/asyncwatch" -d rxe0 >"$out/rust" 2>&1 &
rust=$!
# C buffers what does not go to a terminal.
stdbuf -oL ibv_asyncwatch -d rxe0 >"$out/c" 2>&1 &
c=$!
waits "$out/rust" 'async event FD'
waits "$out/c" 'async event FD'

ip addr add 10.77.99.1/24 dev "$netdev"
waits "$out/rust" 'port 1: GID table changed'
waits "$out/c" IBV_EVENT_GID_CHANGE
ip link set "$netdev" down
waits "$out/rust" 'port 1: port error'
waits "$out/c" IBV_EVENT_PORT_ERR
ip link set "$netdev" up
waits "$out/rust" 'port 1: port active'
waits "$out/c" IBV_EVENT_PORT_ACTIVE
ip addr del 10.77.99.1/24 dev "$netdev"
kill $rust $c
wait $rust $c 2>/dev/null

# Both have seen the same, in the same order, up to when the port was up again: of what came then, addresses for
# instance, either may have been ended before it told.
sed -n 's/.*GID table changed/GID/p; s/.*port error/error/p; /port active/{s/.*/active/p; q}' "$out/rust" >"$out/rust.short"
sed -n 's/.*GID_CHANGE.*/GID/p; s/.*PORT_ERR.*/error/p; /PORT_ACTIVE/{s/.*/active/p; q}' "$out/c" >"$out/c.short"
if ! diff "$out/rust.short" "$out/c.short"; then
    echo "FAIL  asyncwatch: the example (<) and ibv_asyncwatch (>) differ"
    exit 1
fi
echo "ok    asyncwatch: $(wc -l <"$out/c.short") events as ibv_asyncwatch tells them"
