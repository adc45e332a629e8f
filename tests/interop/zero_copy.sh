#!/bin/sh
# A device that sends from a program's pages, and a network that is slow to acknowledge. With the
# delay, TCP still refers to the pages of siw's sends long after their completions.
#
#     cargo test --no-run --test conformance
#     cargo xtask soft-roce --driver siw --kernel 6.12 -- \
#         sh tests/interop/zero_copy.sh target/debug/deps/conformance-*
#
# The argument is the suite.
set -u

suite=${1:?usage: zero_copy.sh SUITE}
echo "Linux $(uname -r): without a delay"
failed=0
timeout 300 "$suite" zero_copy:: || failed=1
modprobe sch_netem || exit 1
tc qdisc add dev lo root netem delay 50ms || exit 1
tc qdisc show dev lo
# Without the crate: the kernel does send from pages that it gave back.
c=$(dirname "$0")/../what_c_does/common.c
gcc -std=c11 -O2 -Wall -Wextra -Werror -o /tmp/control "$(dirname "$0")/zero_copy/control.c" "$c" \
    -libverbs -lrdmacm -lpthread || exit 1
timeout 120 /tmp/control || { echo "FAIL  the control: this kernel sends copies"; failed=1; }
echo "with a delay of 50 ms"
timeout 600 "$suite" zero_copy:: || failed=1
exit $failed
