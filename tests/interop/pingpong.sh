#!/bin/sh
# Each ping-pong against its C namesake of rdma-core, in both roles, every byte checked.
#
#     cargo build --release --examples --features tokio
#     cargo xtask soft-roce -- sh tests/interop/pingpong.sh "$PWD/target/release/examples"
#
# (Debug builds work too, slowly where the guest is emulated.) The argument is an absolute path. The
# device is $PROVERBS_DEVICE (rxe0) with GID index $PROVERBS_GID_INDEX (1). One line for each case; the
# exit code is 1 if any failed.
set -u

examples=${1:?usage: pingpong.sh DIRECTORY-OF-EXAMPLES}
device=${PROVERBS_DEVICE:-rxe0}
gid=${PROVERBS_GID_INDEX:-1}
iters=${PROVERBS_ITERS:-1000}
seconds=$(sh "$(dirname "$0")/patience.sh")
port=18515
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# program TRANSPORT WHOSE: the program's path. The example on tokio speaks as that for RC.
program() {
    case $2 in
    tokio) echo "$examples/tokio_pingpong" ;;
    rust) echo "$examples/$1_pingpong" ;;
    c) echo "ibv_$1_pingpong" ;;
    esac
}

# Waits until TCP port $1 has a listener, but no longer than process $2 lives.
listening() {
    hex=$(printf %04X "$1")
    until cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$hex [0-9A-F]*:0000 0A "; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

# Whether the run of $1 (rust, tokio or c) that printed $2 was clean and checked.
clean() {
    ! grep -q 'invalid data' "$2" || return 1
    [ "$1" = c ] || grep -q 'every byte of' "$2"
}

# pair TRANSPORT SERVER CLIENT [OPTION...]: one case; SERVER and CLIENT are rust, tokio or c.
pair() {
    transport=$1 server=$2 client=$3
    shift 3
    port=$((port + 1))
    set -- -d "$device" -g "$gid" -n "$iters" -p "$port" -c "$@"
    name="$transport: $server server, $client client, $*"

    began=$(date +%s)
    timeout "$seconds" "$(program "$transport" "$server")" "$@" >"$out/server" 2>&1 &
    pid=$!
    if listening "$port" "$pid"; then
        timeout "$seconds" "$(program "$transport" "$client")" "$@" 127.0.0.1 >"$out/client" 2>&1
        client_code=$?
    else
        echo "not started: the server is gone" >"$out/client"
        client_code=none
    fi
    wait "$pid"
    server_code=$?

    if [ "$server_code/$client_code" = 0/0 ] && clean "$server" "$out/server" &&
        clean "$client" "$out/client"; then
        echo "ok    $name ($(($(date +%s) - began)) s)"
    else
        echo "FAIL  $name"
        echo "      exit codes $server_code and $client_code (124: no end in $seconds s); last lines:"
        tail -n 3 "$out/server" | sed 's/^/      server: /'
        tail -n 3 "$out/client" | sed 's/^/      client: /'
        failed=$((failed + 1))
    fi
}

# against_c TRANSPORT [OPTION...]: in both roles.
against_c() {
    transport=$1
    shift
    pair "$transport" rust c "$@"
    pair "$transport" c rust "$@"
}

# both TRANSPORT [OPTION...]: against C, and against itself.
both() {
    against_c "$@"
    transport=$1
    shift
    pair "$transport" rust rust "$@"
}

[ -x "$(program rc tokio)" ] || {
    echo "no $(program rc tokio): cargo build --release --examples --features tokio" >&2
    exit 1
}
for name in rc uc ud srq; do
    [ -x "$(program $name rust)" ] || {
        echo "no $(program $name rust): cargo build --release --examples" >&2
        exit 1
    }
    command -v "$(program $name c)" >/dev/null || {
        echo "no $(program $name c): install rdma-core's ibverbs-utils" >&2
        exit 1
    }
done

both rc
pair rc tokio c
pair rc c tokio
pair rc tokio tokio -s 9000
against_c rc -s 48
against_c rc -s 9000 -m 512 -r 3
both uc
both ud
against_c ud -s 17
both srq
against_c srq -q 1

[ "$failed" = 0 ] || {
    echo "$failed failed" >&2
    exit 1
}
