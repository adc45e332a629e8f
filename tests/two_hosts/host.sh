#!/bin/sh
# One of the two hosts: `host.sh PROGRAM 1|2 RESULTS [SCENARIO...]`. Run by `cargo xtask two-hosts` in both guests.
set -u
program=$1 host=$2 results=$3
shift 3
peer=10.77.0.$((3 - host))
failed=0
port=18600
seconds=$(sh "$(dirname "$0")/../interop/patience.sh")

# lossy OPTION...: what eth0 does to each packet that it sends; without, nothing.
fabric() {
    tc qdisc del dev eth0 root 2>/dev/null
    [ $# = 0 ] || tc qdisc add dev eth0 root netem "$@"
}

for scenario in "$@"; do
    port=$((port + 2))
    expected=0
    case $scenario in
    rc-loss) fabric loss 2% delay 1ms 500us reorder 5% ;;
    uc-loss | ud-loss) fabric loss 5% delay 1ms 500us reorder 5% ;;
    *) fabric ;;
    esac
    # Killed, as it should be.
    [ "$scenario/$host" = peer-killed/2 ] && expected=137
    timeout "$seconds" "$program" --host "$host" --peer "$peer" --port "$port" "$scenario" >>"$results" 2>&1
    code=$?
    if [ $code != $expected ]; then
        echo "FAIL $scenario on host $host: exit code $code" >>"$results"
        failed=1
    fi
done
exit $failed
