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

# Others cannot share: this one has what it can get now, until it ends. Who takes all that there is gets more, as long as
# there is more.
most=4096
[ "$jobs" = many ] || most=$jobs
have=1
while [ "$have" -lt "$most" ]; do
	more=$(dd bs=1 count=$((most - have)) iflag=nonblock <"$pipe" 2>/dev/null | wc -c)
	[ "$more" -gt 0 ] || break
	have=$((have + more))
	sleep 0.1
done
exec "$real" "-j$have" "$@"
