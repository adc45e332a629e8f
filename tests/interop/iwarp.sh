#!/bin/sh
# A suite on iWARP, each test in a process of its own: it passes, or the crate refuses what iWARP has
# not, and says so by the rule (R24), or what no device of iWARP has: extended posting (R15.1).
# Anything else is a failure.
#
#     cargo test --no-run --test conformance
#     PROVERBS_WORLD=iwarp sh tests/interop/iwarp.sh target/debug/deps/conformance-*
#
# The first argument is the suite; behind it, names of tests, all if there are none. One line for
# each failure, and one with the numbers; the exit code is 1 if any failed.
set -u

suite=${1:?usage: iwarp.sh SUITE [TEST...]}
shift
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
passed=0
refused=0
failed=0

# What differs on iWARP and is no refusal: the rights of a queue pair and its attributes are
# rdma_cm's (R24.5), so is a depth that the peer does not serve; the node is an RNIC (R24.1); the
# message of a refused address names no GID (R24.3); ids of the tests live as long as they do.
differs="
device_events::the_responder_is_told_why_it_failed
errors::a_queue_pair_that_grants_nothing
query::a_queue_pair_tells_what_it_was_given
query::what_is_asked_besides
reads::a_responder_that_serves_no_reads
refusals::a_gid_index_that_is_not_filled
teardown::destroy_refuses_what_others_need_and_gives_it_back
"

[ $# -gt 0 ] || set -- $("$suite" --list 2>/dev/null | sed -n 's/: test$//p')
for name in "$@"; do
    case $differs in *"
$name
"*) continue ;; esac
    if RUST_BACKTRACE=0 timeout 120 "$suite" --exact "$name" >"$said" 2>&1; then
        passed=$((passed + 1))
    elif grep -q '(R24\.[0-9]*)\|(R15\.1)' "$said"; then
        refused=$((refused + 1))
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
        grep -A 3 'panicked at' "$said" | head -n 8 | sed 's/^/      /'
    fi
done
echo "iWARP: $passed passed, $refused refused by R24 or R15.1, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" = 0 ]
