# The guest's process 1, on the host's files: bring the device up, run the command, power off.
share=/run/soft-roce
. "$share/env.sh"

stage() { echo "soft-roce: $*" >/dev/console; }

# Written to another file and renamed, so that the host never reads a partial file.
result() {
    echo "$2" >"$share/$1.new" && mv "$share/$1.new" "$share/$1"
}

power_off() {
    sync
    cd /
    umount "$PROVERBS_GUEST_OUT" 2>/dev/null
    echo o >/proc/sysrq-trigger
    while :; do sleep 60; done
}

fail() {
    result error "$*"
    power_off
}

# try WHAT COMMAND...: runs the command. If it fails, WHAT and its output are the error.
try() {
    what=$1
    shift
    output=$("$@" 2>&1) || fail "$what: $* said: $output"
}

# For modules that the kernel loads on demand, such as veth and sch_netem.
mkdir -p /lib/modules
try "modules" mount --bind "$soft_roce_kernel/lib/modules" /lib/modules
mkdir -p "$PROVERBS_GUEST_OUT"
# Write-through, and with mmap, which cache=none does not support.
try "results" mount -t 9p -o trans=virtio,version=9p2000.L,cache=mmap,msize=512000 \
    out "$PROVERBS_GUEST_OUT"
echo soft-roce >/proc/sys/kernel/hostname

try "network" ip link set lo up
if [ -n "$soft_roce_host" ]; then
    netdev=eth0 address=$soft_roce_host
    try "network" modprobe virtio_net
else
    netdev=dummy0 address=1
    try "network" ip link add dummy0 type dummy
fi
try "network" ip addr add 10.77.0.$address/24 dev $netdev
try "network" ip link set $netdev up
if [ -n "$soft_roce_siw" ]; then
    # The modules that siw uses. The module tables of this kernel do not list them for siw.
    try "iWARP" modprobe libcrc32c
    try "iWARP" insmod "$soft_roce_siw"
    device=siw0
    try "iWARP" rdma link add siw0 type siw netdev $netdev
else
    device=rxe0
    try "Soft-RoCE" rdma link add rxe0 type rxe netdev $netdev
fi

# The kernel fills the GID table asynchronously. Before that, INIT to RTR fails. (On iWARP the table
# has one entry, which no address uses.)
port=/sys/class/infiniband/$device/ports/1
is_up() {
    [ "$(cat $port/state)" = "4: ACTIVE" ] || return
    [ $device = siw0 ] && return
    [ "$(cat $port/gids/1 2>&1)" = "0000:0000:0000:0000:0000:ffff:0a4d:000$address" ] &&
        [ "$(cat $port/gid_attrs/types/1 2>&1)" = "RoCE v2" ]
}
# A minute, or a quarter of the remaining time (xtask/src/deadline.rs), with 20 attempts per second.
left=$((${PROVERBS_DEADLINE:-0} - $(date +%s)))
[ $left -gt 240 ] || left=240
most=$((left / 4 * 20)) tries=0
until is_up; do
    tries=$((tries + 1))
    [ $tries -lt $most ] || fail "GID 1 of $device is $(cat $port/gids/1), port $(cat $port/state)"
    sleep 0.05
done
[ -e /dev/infiniband/uverbs0 ] || fail "there is no /dev/infiniband/uverbs0"
ulimit -l unlimited
export PROVERBS_DEVICE=$device PROVERBS_ADDRESS=10.77.0.$address
[ $device = siw0 ] || export PROVERBS_GID_INDEX=1
if grep -q hugepagesz /proc/cmdline; then
    export PROVERBS_NUMA_NODES=$(ls -d /sys/devices/system/node/node[0-9]* | wc -l)
fi

# A port can be opened only once, but pipes any number of times (/dev/stderr), so cat connects them.
for port in /sys/class/virtio-ports/*; do
    name=$(cat "$port/name")
    mkfifo "/run/$name"
    { cat "/run/$name" >"/dev/${port##*/}"; : >"/run/$name.done"; } &
done
[ -p /run/stdout ] && [ -p /run/stderr ] || fail "the ports for the output are not there"
stage running
sh "$share/command.sh" </dev/null >/run/stdout 2>/run/stderr
code=$?
# Flush the remaining output, but do not wait for a daemon that keeps the pipes open.
tries=0
until [ -e /run/stdout.done ] && [ -e /run/stderr.done ] || [ $tries -ge 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
result code $code
power_off
