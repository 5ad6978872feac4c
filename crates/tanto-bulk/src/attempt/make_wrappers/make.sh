# What it is asked for: how many jobs, and all other words.
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

# One job at a time needs no tokens.
case $jobs in
'') exec "$real" "$@" ;;
1) exec "$real" -j1 "$@" ;;
esac

# Tokens are behind descriptors that not every program hands on.
pipe=/proc/self/fd/${TANTO_TOKENS%,*}
if [ -z "$TANTO_TOKENS" ] || ! [ -p "$pipe" ]; then
	if [ "$jobs" = many ]; then exec "$real" -j "$@"; else exec "$real" "-j$jobs" "$@"; fi
fi

if [ "$kind" = gnu ]; then
	# A build below another one shares with that already.
	case $MAKEFLAGS in
	*--jobserver-*) exec "$real" "$@" ;;
	*) exec "$real" "--jobserver-auth=$TANTO_TOKENS" "$@" ;;
	esac
fi

# The tree's own takes them as one that is started by another of its kind does: under numbers that it is told, and from a
# pipe that does not block. That is so only for those who have opened it as we do here, and `dd` is what sets it.
[ "$jobs" = many ] && jobs=4096
exec 8<"$pipe" 9>"$pipe"
dd iflag=nonblock count=0 <&8 2>/dev/null || exec "$real" -j1 "$@"
exec "$real" -J 8,9 "-j$jobs" "$@"
