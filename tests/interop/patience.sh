#!/bin/sh
# Prints how many seconds a script waits for a program that must end: a quarter of what is left of
# the whole run, so that a busy machine fails nothing; five minutes if it was started by hand. The
# run's end is PROVERBS_DEADLINE, seconds since 1970, which `cargo xtask test` and `night` set.
now=$(date +%s)
left=$((${PROVERBS_DEADLINE:-$((now + 1200))} - now))
[ $left -gt 40 ] || left=40
echo $((left / 4))
