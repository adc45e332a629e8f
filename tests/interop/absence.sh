#!/bin/sh
# Absences and refusals as a real kernel produces them: each situation, and the sentence that the
# crate says.
#
#     cargo test --no-run --features tokio --test absence
#     cargo xtask soft-roce -- sh tests/interop/absence.sh target/debug/deps/absence-...
#
# It changes modes of device files, unloads modules and deletes the device (and makes them again),
# so it is for a guest with Soft-RoCE only. The exit code is 1 if a sentence differs.
set -u

probe=${1:?usage: absence.sh TEST-BINARY}
ibdev=$(grep -l "^$PROVERBS_DEVICE$" /sys/class/infiniband_verbs/*/ibdev) || exit 1
node=$(basename "$(dirname "$ibdev")")
netdev=$(cat "/sys/class/infiniband/$PROVERBS_DEVICE/parent")
failed=0
nobody="setpriv --reuid 65534 --clear-groups"

# says SENTENCE COMMAND...: what the command prints is the sentence. (libibverbs warns besides.)
says() {
    expected=$1
    shift
    said=$("$@" 2>/dev/null)
    if [ "$said" = "$expected" ]; then
        echo "ok    ${*##*/}: $said"
    else
        printf 'FAIL  %s:\n  said     %s\n  expected %s\n' "$*" "$said" "$expected"
        failed=1
    fi
}

# limited LIMIT... -- COMMAND...: the command with limits of ulimit.
limited() {
    limits=
    while [ "$1" != -- ]; do limits="$limits ulimit $1;"; shift; done
    shift
    sh -c "$limits exec \"\$@\"" limited "$@"
}

dev=/dev/infiniband
list=ibv_get_device_list open=ibv_open_device channel=rdma_create_event_channel
# each SENTENCE COMMAND...: listing, opening, a channel and an id of rdma_cm say so, each by its verb.
each() {
    sentence=$1
    shift
    says "$list: $sentence" "$@" "$probe" devices
    says "$open: $sentence" "$@" "$probe" open
    cm "$sentence" "$@"
}
cm() {
    sentence=$1
    shift
    says "$channel: $sentence" "$@" "$probe" channel
    says "$channel: $sentence" "$@" "$probe" id
}

# Nothing is missing.
for what in devices open channel id "port 1" "region 4096" "cq 16" "qp 16" "srq 16"; do
    says done "$probe" $what
done
says "$open: no device is called \"rxe7\"; devices of this machine: $PROVERBS_DEVICE" "$probe" open-unknown
says "ibv_modify_qp: EINVAL: Invalid argument (RESET -> INIT; port 3 does not exist: this device has 1 port)" \
    "$probe" port 3

# Descriptors.
files='too many open files; this process may have 64: raise `ulimit -n`, or `LimitNOFILE=` of systemd'
for left in 0 1; do
    says "$list: $files" limited "-n 64" -- "$probe" devices-with $left
    says "$open: $files" limited "-n 64" -- "$probe" open-with $left
    says "$channel: $files" limited "-n 64" -- "$probe" channel-with $left
    says "$channel: $files" limited "-n 64" -- "$probe" id-with $left
done
says "ibv_create_comp_channel: $files" limited "-n 64" -- "$probe" comp-channel-with 0

# Locked memory. Soft-RoCE pins regions but not queues, so queues are refused for lack of memory.
raise='`ulimit -l`, /etc/security/limits.conf, or `LimitMEMLOCK=` of systemd'
chmod 666 $dev/*
says done limited "-l 64" -- $nobody "$probe" region 4096
says done limited "-l 64" -- "$probe" region 1048576
says "ibv_reg_mr: ENOMEM: Cannot allocate memory (1048576 bytes, 0 bytes are locked already, and the limit is 65536: raise RLIMIT_MEMLOCK by $raise)" \
    limited "-l 64" -- $nobody "$probe" region 1048576
memory='ENOMEM: Cannot allocate memory'
# queue VERB ASKED PINNED PROBE...: with a limit on locked memory, and without one.
queue() {
    verb=$1 asked=$2 left=$3
    shift 3
    pin="a driver may pin $left more bytes (RLIMIT_MEMLOCK is 65536): if the queue needs more, raise it by $raise"
    says "$verb: $memory ($asked; $pin)" limited "-l 64" -- $nobody "$probe" "$@"
    says "$verb: $memory ($asked)" "$probe" "$@"
}
queue ibv_create_cq "cqe 30000" 65536 cq-without-memory 30000
queue ibv_create_qp "RC with max_send_wr 8001, max_recv_wr 8000, max_send_sge 1, max_recv_sge 1, max_inline_data 64" \
    65536 qp-without-memory 8000
# Its pool has pinned 64 KB.
queue ibv_create_srq "max_wr 8000, max_sge 1" 0 srq-without-memory 8000

# Permissions.
chmod 600 $dev/*
says done $nobody "$probe" devices
says "$open: this user may not open $dev/$node: check its owner and mode (\`ls -l\`)" $nobody "$probe" open
cm "this user may not open $dev/rdma_cm: check its owner and mode (\`ls -l\`)" $nobody
chmod 666 $dev/*

# Files.
start='start the container with `--device=/dev/infiniband`, or check that udev runs'
mv $dev/$node /run/
each "the kernel has $PROVERBS_DEVICE, but $dev/$node does not exist: $start"
mv /run/$node $dev/
mv $dev/rdma_cm /run/
says done "$probe" devices
says done "$probe" open
cm "the kernel has rdma_cm, but $dev/rdma_cm does not exist: $start"
mv /run/rdma_cm $dev/

# A network namespace without the device.
rdma system set netns exclusive
ip netns add elsewhere
each "$PROVERBS_DEVICE belongs to another network namespace: run \`rdma dev set $PROVERBS_DEVICE netns NAME\` there, or \`rdma system set netns shared\`, as root" \
    ip netns exec elsewhere
ip netns delete elsewhere
rdma system set netns shared

# Devices and modules, which the kernel does not load any more on demand.
echo /bin/false >/proc/sys/kernel/modprobe
rdma link delete "$PROVERBS_DEVICE"
none='the kernel has no RDMA device: load the driver of the NIC, or run `rdma link add rxe0 type rxe netdev eth0` as root for a software device'
says done "$probe" devices
says "$open: $none" "$probe" open
cm "$none"
rmmod rdma_ucm
cm 'the kernel module rdma_ucm is not loaded: run `modprobe rdma_ucm` as root'
# All of them, so that they are loaded in the usual order again. Where ib_uverbs comes after rdma_cm,
# a device that goes waits for its users before it tells their ids.
rmmod rdma_rxe ib_umad ib_uverbs rdma_cm iw_cm ib_cm
says done "$probe" devices
says "$open: the kernel module ib_uverbs is not loaded: run \`modprobe ib_uverbs\` as root" "$probe" open
echo /sbin/modprobe >/proc/sys/kernel/modprobe
modprobe -a ib_uverbs ib_umad rdma_ucm rdma_rxe
rdma link add "$PROVERBS_DEVICE" type rxe netdev "$netdev"
# The kernel fills the GID table in its own time.
until grep -qs ffff "/sys/class/infiniband/$PROVERBS_DEVICE/ports/1/gids/1"; do
    sleep 0.05
done
exit $failed
