#!/bin/sh
# The example nvmf_target and Linux's own NVMe host, which asks for remote invalidation in each
# command with data in its memory; then the example nvmf_host and Linux's own target (nvmet.sh).
#
#     cargo build --release --examples
#     cargo xtask soft-roce -- sh tests/interop/nvme.sh "$PWD/target/release/examples"
#
# The argument is an absolute path. Four connections:
#  1. The target answers by SEND_WITH_INV: the keys match the commands, data makes a round trip,
#     the kernel invalidates no key itself, and it reports no error.
#  2. A control: the target answers by SEND. The kernel then invalidates each key itself, so the
#     kprobe counts them: it would have counted any in the first connection.
#  3. A control: the target invalidates the key of another command. The kernel complains and ends
#     the connection.
#  4. A file system on a namespace in a file. The target is killed during a write, and started
#     again; the write continues, and the files are as expected.
# The kernel's own invalidations are counted by a kprobe on their completions.
set -u

examples=${1:?usage: nvme.sh DIRECTORY-OF-EXAMPLES}
address=${PROVERBS_ADDRESS:-10.77.0.1}
seconds=$(sh "$(dirname "$0")/patience.sh")
port=4420
nqn=nqn.2026-01.example:interop
tracing=/sys/kernel/tracing
out=$(mktemp -d) || exit 1
target=

# Later scripts of this boot need the device.
leave() {
    umount -l "$out/mounted" 2>/dev/null
    [ -z "$target" ] || kill "$target" 2>/dev/null
    for delete in /sys/class/nvme/nvme*/delete_controller; do
        [ ! -e "$delete" ] || echo 1 >"$delete"
    done
    rm -rf "$out"
}
trap leave EXIT

fail() {
    echo "FAIL  nvme: $*"
    echo "the target's last lines:"
    tail -n 20 "$out/target"
    echo "the kernel's:"
    dmesg | tail -n 20
    exit 1
}

# until_true WHAT COMMAND...: waits until the command succeeds.
until_true() {
    what=$1
    end=$(($(date +%s) + seconds))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $end ] || fail "no $what in $seconds s"
        sleep 0.1
    done
}

listening() { rdma resource show cm_id | grep 'state LISTEN' | grep -q ":$port\\b"; }
silent() { ! listening; }
gone() { ! [ -e "/sys/class/nvme/$controller" ]; }
# Whether all queues that the target accepted have ended.
all_ended() { [ "$(queues ': accepted')" = "$(queues ' commands, ')" ]; }
queues() { grep -c "^queue [0-9]*$1\|^queue [0-9]*: [0-9]*$1" "$out/target"; }

# start [OPTION...]: the target.
start() {
    until_true "free port" silent
    uncount
    echo >$tracing/kprobe_events
    echo 'p:nvme_local_inv nvme_rdma_inv_rkey_done' >$tracing/kprobe_events ||
        fail "no kprobe on nvme_rdma_inv_rkey_done"
    echo 1 >$tracing/events/kprobes/nvme_local_inv/enable
    "$examples/nvmf_target" -a "$address" -p $port -n $nqn -s 16 --verbose "$@" \
        >"$out/target" 2>&1 &
    target=$!
    until_true "listening target" listening
}

stop() {
    kill "$@" $target
    wait $target 2>/dev/null
    target=
    uncount
}

uncount() {
    probe=$tracing/events/kprobes/nvme_local_inv/enable
    [ ! -e $probe ] || echo 0 >$probe
}

# The kernel messages since the last attempt to connect.
said() { dmesg | sed "1,/$mark/d"; }
local_invalidations() { awk '$1 == "nvme_local_inv" { print $2 }' $tracing/kprobe_profile; }

# connect [OPTION]: a controller with one I/O queue. On siw the first message of a connection may stay
# in the target's socket (R24.17). The host then gives up, and is asked again.
connect() {
    for try in 1 2 3 4 5; do
        mark="nvme.sh: target $target, try $try of process $$."
        echo "$mark" >/dev/kmsg
        exec 3<>/dev/nvme-fabrics || return 1
        if echo "transport=rdma,traddr=$address,trsvcid=$port,nqn=$nqn,nr_io_queues=1${1:+,$1}" >&3
        then
            read -r answer <&3
            exec 3>&-
            controller=${answer%%,*}
            controller=nvme${controller#instance=}
            return
        fi
        exec 3>&-
        until_true "ends of the queues" all_ended
        [ "$PROVERBS_DEVICE" = siw0 ] || return 1
        [ "$(queues ': 0 commands')" -ge "$try" ] || return 1
        echo "note: siw delivered nothing of a new connection; try $try of 5"
    done
    return 1
}

disconnect() {
    echo 1 >"/sys/class/nvme/$controller/delete_controller" || fail "cannot disconnect"
    until_true "end of the controller" gone
    until_true "ends of the queues" all_ended
}

# round_trip: data that goes to the namespace, and back.
round_trip() {
    disk=/dev/${controller}n1
    until_true "$disk" test -b "$disk"
    dd if=/dev/urandom of="$out/data" bs=64k count=32 2>/dev/null
    dd if="$out/data" of="$disk" bs=64k oflag=direct 2>/dev/null || fail "cannot write to $disk"
    # One block too, at the end.
    dd if="$out/data" of="$disk" bs=512 count=1 seek=32767 oflag=direct 2>/dev/null ||
        fail "cannot write the last block of $disk"
    dd if="$disk" of="$out/back" bs=64k count=32 iflag=direct 2>/dev/null ||
        fail "cannot read from $disk"
    cmp "$out/data" "$out/back" || fail "other bytes came back"
    dd if="$disk" of="$out/last" bs=512 skip=32767 iflag=direct 2>/dev/null
    cmp -n 512 "$out/data" "$out/last" || fail "other bytes came back from the last block"
}

modprobe nvme-rdma || exit 1
# The host gives up a command after so many seconds, on siw sooner than after a minute: see `connect`.
[ "$PROVERBS_DEVICE" != siw0 ] || echo 20 >/sys/module/nvme_core/parameters/admin_timeout
[ -e $tracing/kprobe_events ] || mount -t tracefs tracefs $tracing || exit 1
uname -r

start
connect || fail "the host cannot connect"
round_trip
disconnect
stop
asked=$(grep -c ToInvalidate "$out/target")
# The key that each such command names is the one that its answer invalidates.
matching=$(grep ToInvalidate "$out/target" |
    sed -n 's/.*key: \([0-9]*\) .* status 0x0, SEND_WITH_INV \([0-9]*\)$/\1 \2/p' |
    awk '$1 == $2' | wc -l)
refused=$(grep ToInvalidate "$out/target" | grep -vc 'status 0x0,')
in_capsule=$(grep -c 'InCapsule.* status 0x0, SEND$' "$out/target")
[ "$asked" -gt 64 ] || fail "the host asked for $asked invalidations only"
[ $((matching + refused)) = "$asked" ] || fail "$matching of $asked answers name the key"
# The last block, and Connect of the I/O queue.
[ "$in_capsule" -ge 2 ] || fail "$in_capsule commands had their data in the capsule"
[ "$(local_invalidations)" = 0 ] || fail "the host invalidated $(local_invalidations) keys itself"
said | grep nvme
said | grep -i nvme | grep -iE 'inv|bogus|fail|error|timeout|reset' &&
    fail "the host complains"
grep '^queue ' "$out/target" | head -n 12
grep 'commands,' "$out/target"
echo "ok    nvme: $asked commands asked for invalidation, and the host did none itself;" \
    "$in_capsule had their data in the capsule"

start --never-invalidate
connect || fail "the host cannot connect to a target without SEND_WITH_INV"
round_trip
disconnect
stop
count=$(local_invalidations)
[ "$count" -gt 64 ] || fail "the host invalidated $count keys itself: the probe is blind"
echo "ok    nvme, control: without SEND_WITH_INV the host invalidated $count keys itself"

start --others-key
# Without reconnecting, which would fail in the same way.
connect ctrl_loss_tmo=0 || fail "the host cannot connect"
disk=/dev/${controller}n1
until_true "$disk" test -b "$disk"
readers=
for skip in 0 1 2 3 4 5 6 7; do
    (while dd if="$disk" of=/dev/null bs=64k count=1 skip=$skip iflag=direct; do :; done) \
        >/dev/null 2>&1 &
    readers="$readers $!"
done
until_true "end of the controller" gone
wait $readers
stop
said | grep nvme
said | grep nvme | grep -qi 'invalidation' || fail "the host does not complain"
grep -B 1 'another command' "$out/target"
echo "ok    nvme, control: the host complains about the key of another command"

start --file "$out/disk"
connect reconnect_delay=1,ctrl_loss_tmo=$seconds || fail "the host cannot connect"
disk=/dev/${controller}n1
until_true "$disk" test -b "$disk"
mkfs.ext4 -q -F "$disk" || fail "cannot make a file system"
mkdir "$out/mounted"
mount -t ext4 "$disk" "$out/mounted" || fail "cannot mount"
dd if=/dev/urandom of="$out/data" bs=64k count=16 2>/dev/null
dd if="$out/data" of="$out/mounted/before" bs=64k conv=fsync 2>/dev/null || fail "cannot write"
# The writer waits for each block, so it is in the middle of the file when the target is killed.
dd if="$out/data" of="$out/mounted/during" bs=4k oflag=sync 2>"$out/writer" &
writer=$!
until_true "half of a file" test -s "$out/mounted/during"
stop -9
kill -0 $writer 2>/dev/null || fail "the file was written before the target was killed"
start --file "$out/disk"
wait $writer || fail "the write failed: $(cat "$out/writer")"
dd if="$out/data" of="$out/mounted/after" bs=64k conv=fsync 2>/dev/null || fail "cannot write"
umount "$out/mounted" || fail "cannot unmount"
echo 3 >/proc/sys/vm/drop_caches
mount -t ext4 "$disk" "$out/mounted" || fail "cannot mount again"
for file in before during after; do
    cmp "$out/data" "$out/mounted/$file" || fail "other bytes are in the file '$file'"
done
umount "$out/mounted" || fail "cannot unmount again"
said | grep nvme | grep -i connect
said | grep -iE 'i/o error|remounting|ext4.*error' && fail "the kernel reports errors"
disconnect
stop
echo "ok    nvme: a file system survives that its target is killed and started again"

sh "$(dirname "$0")/nvmet.sh" "$examples" || exit 1
