#!/bin/sh
# Prints the time of rows whose names begin with one of the arguments, in C with all checks and in
# Rust. Run `cargo xtask overhead` before, which builds both.
#
#     benches/overhead/time.sh one/ many/
set -eu

only=$(IFS=,; echo "$*")
out=${CARGO_TARGET_DIR:-$(dirname "$0")/../../target}/overhead
set --
for twins in "$out"/twins-*.so; do
    name=${twins##*/twins-}
    set -- "$@" "${name%.so}=$twins"
done
export LD_PRELOAD="$out/stub/preload.so" LD_LIBRARY_PATH="$out/stub"
exec "$out/release/proverbs-overhead" --only="$only" --time "$out/stub/libibverbs.so.1" "$@"
