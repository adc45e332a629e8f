#!/bin/sh
# The example nvmf_host and Linux's own NVMe target (nvmet-rdma), with a namespace in a file. The
# host verifies random reads and writes. Where the device has memory windows, each command with data
# in the host's memory has its own key, which the kernel invalidates with its answer.
#
#     cargo xtask soft-roce -- sh tests/interop/nvmet.sh "$PWD/target/release/examples"
#
# The argument is an absolute path. `nvme.sh` runs this too.
set -u

examples=${1:?usage: nvmet.sh DIRECTORY-OF-EXAMPLES}
address=${PROVERBS_ADDRESS:-10.77.0.1}
port=4421
nqn=nqn.2026-01.example:nvmet
nvmet=/sys/kernel/config/nvmet
# In a tmpfs: on an overlayfs, the blocks of nvmet have 2^0 bytes.
out=$(mktemp -d -p /dev/shm) || exit 1

leave() {
    rm -f $nvmet/ports/1/subsystems/$nqn
    rmdir $nvmet/ports/1 $nvmet/subsystems/$nqn/namespaces/1 $nvmet/subsystems/$nqn 2>/dev/null
    rm -rf "$out"
}
trap leave EXIT

fail() {
    echo "FAIL  nvmet: $*"
    echo "the host's last lines:"
    tail -n 20 "$out/host" 2>/dev/null
    echo "the kernel's:"
    dmesg | tail -n 20
    exit 1
}

# run [OPTION...]: the host.
run() { "$examples/nvmf_host" "$address" -p $port "$@" >"$out/host" 2>&1; }

# sum NAME: of the counts of all I/O queues.
sum() { sed -n "s/.* $1: \\([0-9]*\\).*/\\1/p" "$out/host" | awk '{ sum += $1 } END { print +sum }'; }

modprobe nvmet-rdma || exit 1
[ -d $nvmet ] || mount -t configfs configfs /sys/kernel/config || exit 1
truncate -s 16M "$out/disk"
mkdir $nvmet/subsystems/$nqn $nvmet/subsystems/$nqn/namespaces/1 $nvmet/ports/1 || exit 1
echo 1 >$nvmet/subsystems/$nqn/attr_allow_any_host
cd $nvmet/subsystems/$nqn/namespaces/1 || exit 1
echo "$out/disk" >device_path
# Older kernels cannot open a file of a tmpfs without the page cache.
echo 1 >buffered_io
echo 1 >enable || fail "cannot enable the namespace"
cd $nvmet/ports/1 || exit 1
echo ipv4 >addr_adrfam
echo rdma >addr_trtype
echo "$address" >addr_traddr
echo $port >addr_trsvcid
ln -s $nvmet/subsystems/$nqn subsystems/$nqn || fail "the target does not listen"
cd /

run -n nqn.2026-01.example:other && fail "the target has no such subsystem"
grep -q 'status 0x4182' "$out/host" || fail "another reason to refuse a name"
echo "ok    nvmet: an unknown subsystem is refused"

run -n $nqn -q 4 -i 1000 || fail "the host fails"
cat "$out/host"
keyed=$(sum keyed) invalidated=$(sum invalidated) in_capsule=$(sum in_capsule)
[ "$in_capsule" -gt 100 ] || fail "$in_capsule commands had their data in the capsule"
[ "$keyed" -gt 1000 ] || fail "$keyed commands had a key"
case $PROVERBS_DEVICE in
siw*) [ "$invalidated" = 0 ] || fail "siw has no windows, and yet $invalidated were invalidated" ;;
*) [ "$invalidated" = "$keyed" ] || fail "$invalidated of $keyed keys were invalidated" ;;
esac
dmesg | grep -i nvmet | tail -n 3
echo "ok    nvmet: $in_capsule writes in capsules, $keyed keys, $invalidated invalidated"
