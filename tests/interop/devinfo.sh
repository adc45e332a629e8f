#!/bin/sh
# Each line of `ibv_devinfo -v` is a line of examples/devinfo, in the same order, but for the space in it.
# usage: devinfo.sh DIRECTORY (of the examples)
set -eu
examples=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
words() { tr -s ' \t' ' ' | sed 's/^ //; s/ $//' | grep -v '^$'; }
# rdma-core 44 has no names for two on-demand paging operations of newer kernels.
new_words() { sed 's/^Unknown flags: 0xC0$/SUPPORT_FLUSH\nSUPPORT_ATOMIC_WRITE/'; }
ibv_devinfo -v | words | new_words > "$here/c"
"$examples/devinfo" -v | words > "$here/rust"
lines=$(wc -l < "$here/c")
[ "$lines" -gt 50 ] || { echo "ibv_devinfo -v says nothing"; cat "$here/c"; exit 1; }
# Our output may have more lines than C's, but must have all of them.
if diff "$here/c" "$here/rust" | grep '^<'; then
    echo "examples/devinfo does not say these lines of ibv_devinfo -v"
    exit 1
fi
echo "examples/devinfo agrees with ibv_devinfo -v: $lines lines"

# In another network namespace the name of the device's interface is not shown, and another interface
# with that name is not taken for it.
interface=$("$examples/devinfo" | sed -n 's/^\tinterfaces of port 1:\t//p')
[ -n "$interface" ] || { echo "examples/devinfo tells no interface"; exit 1; }
ip netns add elsewhere
ip -n elsewhere link add "$interface" type dummy
ip -n elsewhere address add 192.0.2.1/24 dev "$interface"
ip -n elsewhere link set "$interface" up
ip netns exec elsewhere "$examples/devinfo" > "$here/elsewhere"
ip netns delete elsewhere
if grep -q "interfaces.*$interface\|192.0.2.1" "$here/elsewhere"; then
    echo "in another network namespace examples/devinfo tells an interface that is not the device's:"
    cat "$here/elsewhere"
    exit 1
fi
echo "examples/devinfo tells $interface, and in another network namespace none"
