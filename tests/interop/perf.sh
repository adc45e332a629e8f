#!/bin/sh
# perf between two processes on a real RDMA device: every verb on every transport that carries it.
#
#   perf.sh EXAMPLES       the directory with the built examples, perf in the one above; the
#                          device is PROVERBS_DEVICE
set -u
examples=$1
perf=$examples/../perf
failed=0 port=18600

run() {
    port=$((port + 1))
    "$perf" -p $port "$@" >/tmp/perf-server 2>&1 &
    server=$!
    # The server listens when it says so.
    until grep -q waiting /tmp/perf-server || ! kill -0 $server 2>/dev/null; do sleep 0.1; done
    if "$perf" -p $port "$@" 127.0.0.1 >/tmp/perf-client 2>&1 && wait $server; then
        echo "ok: perf $*"
        cat /tmp/perf-client
    else
        failed=$((failed + 1))
        echo "FAILED: perf $*"
        cat /tmp/perf-client /tmp/perf-server
        kill $server 2>/dev/null
    fi
}

"$examples/devinfo" || failed=$((failed + 1))
"$examples/kv" || failed=$((failed + 1))
run -V write -n 200 -s 4096 -l 8 -Q 32
run -V send -n 200 -s 4096 -t 16 -Q 8
run -V read -n 100 -s 4096
run -V fetch-add -n 100
run -V cmp-swp -n 100 --lat
run -V write -n 100 --lat -s 64 -I 64
run -V send -n 100 --lat
run -V read -n 100 --lat
run -c UC -V write -n 100 -s 4096
run -c UC -V send -n 100 --lat
run -c UD -V send -n 200 -t 32
run -c UD -V send -n 100 --lat -s 1024
[ $failed = 0 ] || { echo "$failed failed"; exit 1; }
echo "every verb on every transport measured"
