# run.sh DIRECTORY RESULTS NAME...: runs each program under a time limit, and writes to RESULTS a line
# for each: name, how it ended, its last line, with tabs between.
directory=$1
results=$2
shift 2
newline='
'

# crashed NAME: where, as the kernel saw it: "reading in librxe". Bit 1 of the error is a write.
crashed() {
    place=$(dmesg | sed -n "s/.* $1\[.*segfault.* error \([0-9a-f]*\) in \([a-z0-9_]*\).*/\1 \2/p")
    place=${place##*"$newline"}
    [ -n "$place" ] || return
    [ $((0x${place% *} & 2)) -eq 0 ] && access=reading || access=writing
    printf ', %s in %s' $access "${place#* }"
}

ulimit -c 0
exec 3>&2
: >"$results"
for name; do
    # No "Segmentation fault" from the shell, where one is expected.
    { output=$(exec timeout -k 1 10 "$directory/$name" 2>&3); code=$?; } 2>/dev/null
    case $code in
    0) end="exit 0" ;;
    124 | 137 | 142) end="time-out" ;; # 142: the program's own alarm
    134) end="SIGABRT" ;;
    135) end="SIGBUS" ;;
    139) end="SIGSEGV$(crashed "$name")" ;;
    *) end="exit $code" ;;
    esac
    printf '%s\t%s\t%s\n' "$name" "$end" "${output##*"$newline"}" >>"$results"
done
