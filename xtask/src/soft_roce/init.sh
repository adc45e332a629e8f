#!/bin/busybox sh
# In the initramfs: load the modules, put a tmpfs over the host's root, and go there.
# "soft-roce: STAGE" on the console shows the host the progress.
export PATH=/bin
/bin/busybox --install -s /bin
echo "soft-roce: init"
mount -t proc proc /proc

fail() {
    echo "soft-roce: failed: $*"
    echo o >/proc/sysrq-trigger
    sleep 60
}

while read -r module parameters; do
    insmod "/modules/$module.ko" $parameters || fail "cannot load $module"
done </modules/order
echo "soft-roce: modules loaded"

# Changes of the host's root during a run do not matter, so the cache is loose. This also allows
# mmap, which running programs from there needs.
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host ||
    fail "cannot mount the host's root"
mount -t tmpfs -o mode=755 tmpfs /overlay
lower=/host
if grep -q soft_roce.over /proc/cmdline; then
    mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 over /over ||
        fail "cannot mount what lies over the host's root"
    lower=/over:/host
fi
mkdir /overlay/upper /overlay/work
mount -t overlay -o lowerdir=$lower,upperdir=/overlay/upper,workdir=/overlay/work overlay /root ||
    fail "cannot put a tmpfs over the host's root"

cd /root
mkdir -p dev proc sys run tmp
mount -t devtmpfs devtmpfs dev
mkdir -p dev/pts dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -sf /proc/self/fd dev/fd
ln -sf fd/0 dev/stdin
ln -sf fd/1 dev/stdout
ln -sf fd/2 dev/stderr
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/soft-roce run/lock
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 share run/soft-roce ||
    fail "cannot mount the share"
echo "soft-roce: root mounted"
cd /
umount /proc
exec switch_root /root /bin/sh /run/soft-roce/guest.sh
