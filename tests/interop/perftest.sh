#!/bin/sh
# The example perf against the programs of perftest, in both roles: what each end printed is looked at.
#
#     cargo build --release --examples && cargo build --release --package perf
#     cargo xtask soft-roce -- sh tests/interop/perftest.sh "$PWD/target/release/examples" [PATTERN]
#
# The argument is an absolute path; with PATTERN, a case of shell, only the cases that it fits. The
# device is $PROVERBS_DEVICE (rxe0) with GID index $PROVERBS_GID_INDEX (1), and $PROVERBS_CM_ADDRESS
# (10.77.0.1) the address of its network device. One line for each case; the exit code is 1 if any
# failed.
set -u

examples=${1:?usage: perftest.sh DIRECTORY-OF-EXAMPLES [PATTERN]}
perf=$examples/../perf
pattern=${2:-*}
device=${PROVERBS_DEVICE:-rxe0}
gid=${PROVERBS_GID_INDEX:-1}
address=${PROVERBS_CM_ADDRESS:-10.77.0.1}
# Empty, or -R to connect by rdma_cm.
cm=
seconds=$(sh "$(dirname "$0")/patience.sh")
port=19000
passed=0
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# Whether port $1 has a listener.
is_listening() {
    if [ "$cm" ]; then
        rdma resource show cm_id 2>/dev/null | grep 'state LISTEN' | grep -q ":$1\b"
    else
        hex=$(printf %04X "$1")
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$hex [0-9A-F]*:0000 0A "
    fi
}

# Waits until port $1 has a listener, but no longer than process $2 lives.
listening() {
    until is_listening "$1"; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

# end WHOSE TOOL CONNECTION SIZE [SERVER]: one end of the case.
end() {
    whose=$1 tool=$2 connection=$3 size=$4
    shift 4
    if [ "$whose" = c ]; then
        case $tool in *atomic*) size= ;; esac
        timeout "$seconds" "$tool" -F -d "$device" -x "$gid" -p "$port" -c "$connection" \
            -n "$iters" $cm ${size:+-s "$size"} "$@"
        return
    fi
    case $tool in
    ib_send_*) verb=send ;;
    ib_write_*) verb=write ;;
    ib_read_*) verb=read ;;
    ib_atomic_*) verb=fetch-add size= ;;
    esac
    case $tool in *_lat) lat=--lat ;; *) lat= ;; esac
    timeout "$seconds" "$perf" --perftest -d "$device" -x "$gid" -p "$port" \
        -c "$connection" -n "$iters" ${size:+-s "$size"} -V "$verb" $lat $cm "$@"
}

# clean ROLE WHOSE TOOL SIZE: whether this end, which printed $out/ROLE, reports all the messages.
clean() {
    case $1,$2,$3 in
    # C's server that only answers prints no results; ours of bandwidth prints what the client told.
    server,c,ib_send_* | server,c,ib_write_lat | client,*) line="^ *$4 +$iters +" ;;
    server,c,*) return 0 ;;
    server,rust,ib_send_bw) line="^$iters of $iters messages of $4 bytes arrived" ;;
    server,rust,*_bw) line="^the client measured $iters .* of $4 bytes:" ;;
    server,rust,ib_read_lat | server,rust,ib_atomic_lat) return 0 ;;
    server,rust,*) line="^ *$4 +$iters +" ;;
    esac
    grep -Eq "$line" "$out/$1"
}

# pair TOOL CONNECTION SIZE ITERATIONS SERVER CLIENT: one case; SERVER and CLIENT are rust or c.
pair() {
    name="$1 ${cm:+$cm }-c $2 -s $3 -n $4: $5 server, $6 client"
    iters=$4
    case $name in $pattern) ;; *) return ;; esac
    port=$((port + 1))
    began=$(date +%s)
    end "$5" "$1" "$2" "$3" >"$out/server" 2>&1 &
    pid=$!
    if listening "$port" "$pid"; then
        end "$6" "$1" "$2" "$3" "$address" >"$out/client" 2>&1
        client_code=$?
    else
        echo "not started: the server is gone" >"$out/client"
        client_code=none
    fi
    wait "$pid"
    server_code=$?
    if [ "$server_code/$client_code" = 0/0 ] && clean server "$5" "$1" "$3" &&
        clean client "$6" "$1" "$3"; then
        echo "ok    $name ($(($(date +%s) - began)) s)"
        passed=$((passed + 1))
        [ -z "${PERFTEST_SHOW:-}" ] || tail -n 5 "$out/server" "$out/client"
    else
        echo "FAIL  $name"
        echo "      exit codes $server_code and $client_code (124: no end in $seconds s); last lines:"
        tail -n 5 "$out/server" | sed 's/^/      server: /'
        tail -n 5 "$out/client" | sed 's/^/      client: /'
        failed=$((failed + 1))
    fi
}

# against_c TOOL CONNECTION SIZE [ITERATIONS]: in both roles.
against_c() {
    pair "$1" "$2" "$3" "${4:-20}" rust c
    pair "$1" "$2" "$3" "${4:-20}" c rust
}

[ -x "$perf" ] || {
    echo "no $perf: cargo build --release --package perf" >&2
    exit 1
}
command -v ib_send_lat >/dev/null || {
    echo "no ib_send_lat: install perftest" >&2
    exit 1
}

for connection in RC UC; do
    against_c ib_send_lat $connection 64
    against_c ib_send_bw $connection 4096
    against_c ib_write_lat $connection 64
    against_c ib_write_bw $connection 4096
done
# Beyond the queues' depths; beyond what a byte counts to.
against_c ib_send_bw RC 2 1500
against_c ib_write_lat RC 1 300
against_c ib_read_lat RC 64
against_c ib_read_bw RC 4096
against_c ib_atomic_lat RC 8
against_c ib_atomic_bw RC 8
against_c ib_send_lat UD 64
against_c ib_send_bw UD 1024

# perftest has no UC here.
cm=-R
against_c ib_send_lat RC 64
against_c ib_send_bw RC 4096
against_c ib_write_lat RC 64
against_c ib_write_bw RC 4096
against_c ib_read_lat RC 64
against_c ib_read_bw RC 4096
against_c ib_atomic_lat RC 8
against_c ib_atomic_bw RC 8
# The C server waits for a datagram that introduces the client, which ours does not send.
pair ib_send_lat UD 64 20 rust c
against_c ib_send_bw UD 1024

[ "$failed" = 0 ] || {
    echo "$failed failed" >&2
    exit 1
}
# The part `perftest` of the tests keeps it.
version=$(ib_send_lat --version | sed -n 's/^Version: //p')
[ "$pattern" != '*' ] || echo "seen: Linux $(uname -r), perftest $version: $passed ok"
