#!/bin/sh
# The suites, and the examples against C's programs, on the kernel and the rdma-core of this guest.
#
#     cargo xtask test kernels
#
# The arguments are the suites conformance, attack and cm, and the directory of the examples. All of
# them run, so that one boot shows all differences; the exit code is 1 if any failed. Then come the
# expectations that are specific to this kernel or library, by rule, and the skipped tests with the
# reasons; the last line lists what ran. Tests that take the link or the device down come last.
set -u

conformance=${1:?usage: kernels.sh CONFORMANCE ATTACK CM EXAMPLES}
attack=$2 cm=$3 examples=$4
here=$(dirname "$0")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
seen=

# logged NAME COMMAND...: its output is ours, and in $dir/NAME.
logged() {
    log=$dir/$1
    echo "--- $1"
    shift
    began=$(date +%s)
    { "$@" 2>&1; echo $? >"$dir/code"; } | tee "$log"
    code=$(cat "$dir/code")
    echo "--- $(($(date +%s) - began)) s, exit code $code"
    [ "$code" = 0 ] || failed=1
}

# suite NAME COMMAND...: what a suite of libtest counts.
suite() {
    name=$1
    logged "$@" --show-output
    counts=$(sed -n 's/^test result: [a-zA-Z]*\. \(.* passed; .* failed; .* ignored\);.*/\1/p' "$log")
    [ "$counts" ] || failed=1
    seen="$seen; $name ${counts:-died}"
}

# interop SCRIPT: what a script counts of its cases, if it has some.
interop() {
    logged "$1.sh" sh "$here/$1.sh" "$examples"
    cases=$(grep -c '^ok' "$log")
    if [ "$cases" = 0 ]; then cases=agrees; else cases="$cases ok"; fi
    [ "$code" = 0 ] || cases="$cases, FAILED"
    seen="$seen; $1 $cases"
}

suite conformance "$conformance"
suite attack "$attack"
suite cm "$cm" --skip removal::
# Kernels differ in what they answer, and not in the thousandth time; the part `guest` has that.
export PROVERBS_ITERS=100
for script in devinfo pingpong cm perf nvme asyncwatch; do
    interop $script
done
export PROVERBS_MAY_REPLACE="$PROVERBS_DEVICE"
suite replaced "$cm" replaced::
export PROVERBS_MAY_REMOVE="$PROVERBS_DEVICE" PROVERBS_ADDRESS=10.77.9.1
suite removal "$cm" removal::

echo
echo "Expected of this device, kernel and library, by rule, with the number of times:"
cat "$dir/"* | grep -E '^R[0-9]+\.[0-9]+: ' | sort | uniq -c
echo "Skipped:"
cat "$dir/"* | grep -E '^(skipped|not run): |^test .* ignored' | sort | uniq -c
library=$(basename "$(readlink -f /usr/lib/*/libibverbs.so.1)")
[ $failed = 0 ] || seen="$seen; something FAILED"
echo "seen: Linux $(uname -r), rdma-core ${library#libibverbs.so.1.*.}$seen"
exit $failed
