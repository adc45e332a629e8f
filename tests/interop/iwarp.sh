#!/bin/sh
# The conformance suite on iWARP: all of it but what iwarp.list names, which is what iWARP has not,
# each test with its rule. Where PROVERBS_DEVICE names no device, so on the loopback's iWARP, each
# of these is run too, and must be refused by the rule that the list has for it.
#
#     cargo test --no-run --test conformance
#     PROVERBS_WORLD=iwarp sh tests/interop/iwarp.sh target/debug/deps/conformance-*
#
# The argument is the suite. The exit code is 1 if a test failed, if one of the list passed or was
# refused by another rule, or if the list names one that there is not.
set -u

suite=${1:?usage: iwarp.sh SUITE}
list=$(dirname "$0")/iwarp.list
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
seconds=$(sh "$(dirname "$0")/patience.sh")
here=loopback
[ -n "${PROVERBS_DEVICE:-}" ] && here=siw

"$suite" --list 2>/dev/null | sed -n 's/: test$//p' | sort >"$dir/all"
# RULE HOW TEST: what is not run here.
grep -v '^#\|^$' "$list" | awk -v here=$here '$2 != "siw" || here == "siw"' >"$dir/listed"
awk '{ print $3 }' "$dir/listed" | sort >"$dir/names"
for name in $(grep -v '^#\|^$' "$list" | awk '{ print $3 }' | sort | comm -23 - "$dir/all"); do
    echo "FAIL  $name: iwarp.list has it, and the suite has not"
    failed=1
done
for name in $(uniq -d "$dir/names"); do
    echo "FAIL  $name: iwarp.list has it twice"
    failed=1
done

# Some sleep for long, so more threads than processors.
comm -23 "$dir/all" "$dir/names" >"$dir/rest"
RUST_BACKTRACE=0 timeout $((3 * seconds)) "$suite" --quiet --test-threads 4 --exact $(cat "$dir/rest") || failed=1

if [ $here = loopback ]; then
    # Each in a process of its own: what panics in the middle may abort.
    while read -r rule how name; do
        if RUST_BACKTRACE=0 timeout "$seconds" "$suite" --exact "$name" >"$dir/said" 2>&1; then
            echo "FAIL  $name: it passes, and iwarp.list has it"
            failed=1
        elif [ "$how" = refused ] && ! grep -q "($rule)" "$dir/said"; then
            echo "FAIL  $name: it is not refused by $rule"
            grep -A 3 'panicked at' "$dir/said" | head -n 8 | sed 's/^/      /'
            failed=1
        fi
    done <"$dir/listed"
fi

echo "iWARP, $here: $(wc -l <"$dir/rest") tests were run; not run as tests of what works:"
# What the rules say, as the list has it: # RULE: words.
awk '{ print $1 }' "$dir/listed" | sort | uniq -c | while read -r count rule; do
    echo "  $count by $rule: $(sed -n "s/^# $rule: //p" "$list")"
done
exit $failed
