# Separate the number of jobs from the other arguments.
jobs=
left=$#
while [ "$left" -gt 0 ]; do
	word=$1
	shift
	left=$((left - 1))
	case $word in
	-j | --jobs)
		jobs=many
		if [ "$left" -gt 0 ]; then
			case $1 in
			*[!0-9]* | '') ;;
			*) jobs=$1 && shift && left=$((left - 1)) ;;
			esac
		fi
		;;
	-j*[!0-9]*) set -- "$@" "$word" ;;
	-j*) jobs=${word#-j} ;;
	--jobs=*) jobs=${word#--jobs=} ;;
	*) set -- "$@" "$word" ;;
	esac
done

# One job needs no tokens.
case $jobs in
'') exec "$real" "$@" ;;
1) exec "$real" -j1 "$@" ;;
esac

# Some programs close the descriptors of the pool.
pipe=/proc/self/fd/${TANTO_TOKENS%,*}
if [ -z "$TANTO_TOKENS" ] || ! [ -p "$pipe" ]; then
	if [ "$jobs" = many ]; then exec "$real" -j "$@"; else exec "$real" "-j$jobs" "$@"; fi
fi

if [ "$kind" = gnu ]; then
	# A nested make already shares the pool.
	case $MAKEFLAGS in
	*--jobserver-*) exec "$real" "$@" ;;
	*) exec "$real" "--jobserver-auth=$TANTO_TOKENS" "$@" ;;
	esac
fi

# bmake takes the pool like a nested bmake: as descriptor numbers of a nonblocking pipe. Only an own open file description
# may be nonblocking, and `dd` sets that flag.
[ "$jobs" = many ] && jobs=4096
exec 8<"$pipe" 9>"$pipe"
dd iflag=nonblock count=0 <&8 2>/dev/null || exec "$real" -j1 "$@"
exec "$real" -J 8,9 "-j$jobs" "$@"
