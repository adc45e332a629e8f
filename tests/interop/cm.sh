#!/bin/sh
# The rdma_cm examples against their C namesakes of rdma-core, in both roles and against themselves; our
# rping's server ends as soon as C's, or at most a second later; the storage target with clients that fail; and
# the transfer engine with a target that fails.
#
#     cargo build --release --examples
#     cargo xtask soft-roce -- sh tests/interop/cm.sh "$PWD/target/release/examples"
#
# The argument is an absolute path. $PROVERBS_CM_ADDRESS is the RDMA network device's (10.77.0.1). One line for each
# case; the exit code is 1 if any failed. On iWARP, which has no UD, udaddy and mckey are left out,
# and the engine is refused.
set -u

examples=${1:?usage: cm.sh DIRECTORY-OF-EXAMPLES}
address=${PROVERBS_CM_ADDRESS:-10.77.0.1}
seconds=$(sh "$(dirname "$0")/patience.sh")
port=17170
failed=0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# program NAME WHOSE: the program's path.
program() {
    case $2 in
    rust) echo "$examples/$1" ;;
    c) echo "$1" ;;
    esac
}

# Waits until an id listens on port $1, but no longer than process $2 lives.
listening() {
    until rdma resource show cm_id 2>/dev/null | grep 'state LISTEN' | grep -q ":$1\\b"; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

# Waits until port $1 has no listener any more.
silent() {
    while rdma resource show cm_id 2>/dev/null | grep 'state LISTEN' | grep -q ":$1\\b"; do
        sleep 0.05
    done
}

# told CODES WHAT: a case is passed if the codes are 0/0.
told() {
    if [ "$1" = 0/0 ]; then
        echo "ok    $2"
    else
        echo "FAIL  $2"
        echo "      exit codes of server and client: $1 (124: no end in $seconds s); last lines:"
        tail -n 3 "$out/server" | sed 's/^/      server: /'
        tail -n 3 "$out/client" | sed 's/^/      client: /'
        failed=$((failed + 1))
    fi
}

# case_of NAME SERVER CLIENT PORT EXPECTED-IN-RUST'S-CLIENT: runs $server_args and $client_args.
case_of() {
    name="$1: $2 server, $3 client"
    silent "$4"
    timeout "$seconds" $(program "$5" "$2") $server_args >"$out/server" 2>&1 &
    pid=$!
    if listening "$4" "$pid"; then
        timeout "$seconds" $(program "$6" "$3") $client_args >"$out/client" 2>&1
        client_code=$?
    else
        echo "not started: the server is gone" >"$out/client"
        client_code=none
    fi
    wait "$pid"
    server_code=$?
    [ "$3" = c ] || grep -q "$7" "$out/client" || client_code=unfinished
    told "$server_code/$client_code" "$name"
}

# said WORDS PROCESS: waits until the server says so, but no longer than the process lives.
said() {
    until grep -q "$1" "$out/server"; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

# ended PROCESS: whether it ends within a second.
ended() {
    tries=0
    while kill -0 "$1" 2>/dev/null; do
        [ $tries -lt 20 ] || return 1
        tries=$((tries + 1))
        sleep 0.05
    done
}

# mckey_case RECEIVER SENDER: the receiver is two members of the group, and the sender a third.
mckey_case() {
    args="-m 239.77.0.5 -b $address -C 40 -S 900"
    # C's says that it has joined when its buffer is full, but for stdbuf.
    timeout "$seconds" stdbuf -oL $(program mckey "$1") $args -c 2 >"$out/server" 2>&1 &
    pid=$!
    # Its second member has joined when it says so twice; who sends waits for switches besides.
    until [ "$(grep -c joined "$out/server")" = 2 ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
    # C's sender does not wait for its completions, and its queue pair may end with messages unsent
    # (seen on Linux 7.3, by C's receiver too). So it is started until the receiver has them all.
    runs=0
    while
        timeout "$seconds" $(program mckey "$2") $args -s >"$out/client" 2>&1
        client_code=$?
        runs=$((runs + 1))
        [ "$2/$client_code" = c/0 ] && [ $runs -lt 20 ] && ! ended $pid
    do :; done
    wait $pid
    told "$?/$client_code" "mckey: $1 receiver, $2 sender"
}

# cmtime_case SERVER CLIENT PORT: a signal ends the server, since C's does not end by itself.
cmtime_case() {
    # The cmtime of rdma-core 52 and newer also synchronises each step by TCP, which ours does not.
    if [ "$1$2" != rustrust ] && grep -q 'Accept sockets' "$(command -v cmtime)"; then
        echo "left out: cmtime -c 50: $1 server, $2 client: C's is newer than rdma-core 51"
        return
    fi
    silent "$3"
    timeout "$seconds" $(program cmtime "$1") -b "$address" -p "$3" >"$out/server" 2>&1 &
    pid=$!
    listening "$3" $pid
    timeout "$seconds" $(program cmtime "$2") -s "$address" -p "$3" -c 50 >"$out/client" 2>&1
    codes=0/$?
    # C's client ends with 0 whatever came of its connections.
    grep -q '^destroy' "$out/client" && ! grep -q RDMA_CM_EVENT "$out/client" || codes=0/unfinished
    [ "$1" = c ] || said 'cmtime: 50 connections served' $pid || codes="unfinished/${codes#*/}"
    kill $pid
    wait $pid 2>/dev/null
    told "$codes" "cmtime -c 50: $1 server, $2 client"
}

# lives_on WHOSE: how long rping's server lives on when C's client has ended, in ms.
lives_on() {
    port=$((port + 1))
    timeout "$seconds" $(program rping "$1") -s -a "$address" -p $port -S 64 >"$out/server" 2>&1 &
    pid=$!
    listening $port $pid
    timeout "$seconds" rping -c -a "$address" -p $port -S 64 -C 10 -V >"$out/client" 2>&1
    codes=$?
    began=$(date +%s%N)
    wait $pid
    codes="$?/$codes"
    took=$((($(date +%s%N) - began) / 1000000))
}

for name in rping rdma_server rdma_client udaddy ucmatose mckey cmtime; do
    [ -x "$(program $name rust)" ] || {
        echo "no $(program $name rust): cargo build --release --examples" >&2
        exit 1
    }
    command -v $name >/dev/null || {
        echo "no $name: install rdma-core's rdmacm-utils" >&2
        exit 1
    }
done

has_ud=yes
ibv_devinfo ${PROVERBS_DEVICE:+-d "$PROVERBS_DEVICE"} | grep -q 'transport:.*iWARP' && has_ud=

for roles in "rust c" "c rust" "rust rust"; do
    set -- $roles
    for size in 64 4096; do
        port=$((port + 1))
        server_args="-s -a $address -p $port -S $size"
        client_args="-c -a $address -p $port -S $size -C 100 -V"
        case_of "rping -S $size" "$1" "$2" $port rping rping 'every byte checked'
    done
    port=$((port + 1))
    server_args="-s $address -p $port"
    client_args="-s $address -p $port"
    case_of "rdma_server, rdma_client" "$1" "$2" $port rdma_server rdma_client '16 bytes came back'
    port=$((port + 1))
    server_args="-b $address -p $port -c 5 -C 40 -S 3000"
    client_args="-s $address -p $port -c 5 -C 40 -S 3000 -t 8"
    case_of "ucmatose -c 5" "$1" "$2" $port ucmatose ucmatose '40 messages of 3000 bytes each way'
    port=$((port + 1))
    cmtime_case "$1" "$2" $port
    if [ -n "$has_ud" ]; then
        mckey_case "$1" "$2"
        # The C program's port is fixed.
        server_args="-b $address -C 40 -S 1000"
        client_args="-s $address -C 40 -S 1000"
        case_of udaddy "$1" "$2" 7174 udaddy udaddy 'data transfers complete'
    fi
done

# Our server ends at most a second later than C's does: the shortest time that our program waits is
# 10 s. Not on siw, where a connection's first message now and then stays in the server's socket
# (seen with 3 of 61 clients): nothing has ended then.
if [ -n "$has_ud" ]; then
    lives_on c
    soon=$((took + 1000))
    told "$codes" "rping: c server ends $took ms after C's client"
    lives_on rust
    [ $took -le $soon ] || codes="late/${codes#*/}"
    told "$codes" "rping: rust server ends $took ms after C's client, by $soon ms"
fi

# Two clients at once on one listening id, of which one is C's.
port=$((port + 1))
timeout "$seconds" "$(program rping rust)" -s -P -a "$address" -p $port >"$out/server" 2>&1 &
server=$!
listening $port $server
"$(program rping rust)" -c -a "$address" -p $port -C 300 -V >"$out/one" 2>&1 &
one=$!
rping -c -a "$address" -p $port -C 300 -V >"$out/two" 2>&1
two=$?
if wait $one && [ $two = 0 ]; then
    echo "ok    rping: two clients at once"
else
    echo "FAIL  rping: two clients at once"
    tail -n 3 "$out/server" "$out/one" "$out/two"
    failed=$((failed + 1))
fi
kill $server

# connected PID: waits until process PID is connected to the target, but no longer than it lives.
connected() {
    until rdma resource show cm_id 2>/dev/null | grep 'state CONNECT' | grep -q "pid $1 "; do
        kill -0 "$1" 2>/dev/null || return 1
        sleep 0.05
    done
}

# The storage target has room for one connection. One client has it and idles, another one is
# rejected, the first one is killed, and a third one stores two blocks.
target_case() {
    target=$(program target rust)
    port=$((port + 1))
    mkfifo "$out/serve" "$out/idle"
    "$target" serve -a "$address:$port" -n 1 <"$out/serve" >"$out/server" 2>&1 &
    server=$!
    exec 8>"$out/serve"
    listening $port $server || return 1
    "$target" put -a "$address:$port" <"$out/idle" 8>&- >"$out/client" 2>&1 &
    idle=$!
    exec 9>"$out/idle"
    connected $idle || return 1
    echo no | timeout "$seconds" "$target" put -a "$address:$port" >"$out/client" 2>&1 && return 1
    grep -q 'all 1 connections of the target are in use' "$out/client" || return 1
    kill -9 $idle
    exec 9>&-
    # The target may not have noticed yet.
    until head -c 8192 /dev/zero | "$target" put -a "$address:$port" -b 5 >"$out/client" 2>&1; do
        grep -q 'in use' "$out/client" || return 1
    done
    grep -q 'stored 8192 bytes from block 5 on' "$out/client" || return 1
    exec 8>&-
    wait $server || return 1
    grep -q 'accepted: 2, .* stored: 2, refused: 0' "$out/server"
}

if target_case; then
    echo "ok    target: one client idles, one is rejected, one is killed, one stores"
else
    echo "FAIL  target: one client idles, one is rejected, one is killed, one stores"
    tail -n 3 "$out/server" "$out/client"
    failed=$((failed + 1))
    kill $server $idle 2>/dev/null
fi

# has FILE TEXT PID: waits until the file has the text, but no longer than the process lives.
has() {
    until grep -q "$2" "$1"; do
        kill -0 "$3" 2>/dev/null || return 1
        sleep 0.05
    done
}

# The engine has two targets. One is killed, a round fails for that one alone, and after the target is
# back, a later round reaches both.
engine_case() {
    engine=$(program engine rust)
    one=$address:$((port + 1))
    two=$address:$((port + 2))
    mkfifo "$out/first" "$out/second" "$out/again" "$out/rounds"
    "$engine" target "$one" <"$out/first" >"$out/server" 2>&1 &
    first=$!
    exec 6>"$out/first"
    "$engine" target "$two" <"$out/second" 6>&- >"$out/two" 2>&1 &
    second=$!
    exec 7>"$out/second"
    listening $((port + 1)) $first && listening $((port + 2)) $second || return 1
    "$engine" initiator "$address" "$one" "$two" <"$out/rounds" 6>&- 7>&- >"$out/client" 2>&1 &
    initiator=$!
    exec 8>"$out/rounds"
    has "$out/client" "round 1: $two" $initiator || return 1
    kill -9 $second
    exec 7>&-
    silent $((port + 2))
    echo >&8
    has "$out/client" "round 2: $two" $initiator || return 1
    "$engine" target "$two" <"$out/again" 6>&- 8>&- >"$out/two" 2>&1 &
    second=$!
    exec 7>"$out/again"
    round=2
    until grep -q "round $round: $two: Ok(1048576), the same: true" "$out/client"; do
        [ $round -lt 1000 ] || return 1
        round=$((round + 1))
        echo >&8
        has "$out/client" "round $round: $two" $initiator || return 1
    done
    exec 8>&-
    wait $initiator || return 1
    exec 6>&- 7>&-
    wait $first && wait $second || return 1
    grep -q "round 1: $two: Ok(1048576), the same: true" "$out/client" &&
        grep -q "round 2: $two: Err" "$out/client" &&
        ! grep "$one" "$out/client" | grep -v 'Ok(1048576), the same: true'
}

# iWARP does not offer the engine's signaling: its connection fails with the reason.
engine_on_iwarp() {
    engine=$(program engine rust)
    one=$address:$((port + 1))
    mkfifo "$out/first" "$out/rounds"
    "$engine" target "$one" <"$out/first" >"$out/server" 2>&1 &
    first=$!
    exec 6>"$out/first"
    listening $((port + 1)) $first || return 1
    "$engine" initiator "$address" "$one" <"$out/rounds" 6>&- >"$out/client" 2>&1 &
    initiator=$!
    exec 8>"$out/rounds"
    has "$out/client" "round 1: $one: Err.*EOPNOTSUPP.*selective signaling" $initiator || return 1
    exec 8>&-
    wait $initiator && return 1
    exec 6>&-
    wait $first
}

case=engine_case
name='two targets, one is killed and comes back'
[ -n "$has_ud" ] || case=engine_on_iwarp name='its signaling is refused'
if $case; then
    echo "ok    engine: $name"
else
    echo "FAIL  engine: $name"
    tail -n 3 "$out/server" "$out/two" "$out/client"
    failed=$((failed + 1))
    kill $first ${second:-} $initiator 2>/dev/null
fi

[ "$failed" = 0 ] || {
    echo "$failed failed" >&2
    exit 1
}
