# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# lib.sh - the shell functions that the scripts share. A script sources it from the root of the tree:
#
#	me=demo				# the name before each message
#	. scripts/lib.sh
#	logs_in build/logs		# the folder of the logs; default: a temporary folder
#	step build ninja -C build	# run a command with its whole output in build/logs/build.log
#
# step NAME CMD...	A step prints one line on stderr: its name, then its duration. A terminal also
#			shows a status line during the step. A step that fails prints the last 20 lines
#			of its log and one line with the step and the log. Then the script exits.
#			The log is named after NAME up to its first colon.
# try NAME CMD...	The same, but a failure returns the status of CMD.
# tree_in BUILD OPTS	The steps "configure" and "build". OPTS are for a new "meson setup".
# say TEXT...		Print a line on stderr, above the status line.
# status TEXT...	Replace the status line. Without a terminal, nothing is printed.
# alone_in DIR		Wait until no other script has the folder of a build, and keep others out.
# bar DONE ALL		Print a bar and a count on stdout.
# fail TEXT...		Print "me: TEXT" on stderr and exit with status 1.
# explain TEXT...	Print a remark of a demo on stdout, folded.
#
# Debian systems in folders. Bases, as archives, are in $debian_cache for later runs:
#
# debian_base RELEASE	Make the base of a release, unless one of the last 30 days is there.
# debian_unpack RELEASE DIR	Make a system in the folder, with the sources and proxies of this machine.
# debian_mount DIR	Mount /proc, /sys and /dev there. The caller is in a mount namespace of its own.
#
# CMD may be a shell function. "set -e" has no effect inside CMD: join its commands by "&&".
# A script may set step_status to the name of a function. It is called with the log of the step and
# prints the text of the status line. The default is the count of ninja, or the last line of the log.
# A temporary folder of logs remains only if a step failed.

me=${me:-${0##*/}}
step_status=step_last_line
logs=
logs_are_temporary=

lib_terminal=
if [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; then
	lib_terminal=1
fi

logs_in() {
	logs=$1
	logs_are_temporary=
}

status() {
	[ -n "$lib_terminal" ] || return 0
	# The width can change at any time.
	lib_columns=$(stty size <&2 2>/dev/null | cut -d ' ' -f 2)
	[ "${lib_columns:-0}" -gt 1 ] || lib_columns=80
	printf "\r\033[K%.$((lib_columns - 1))s" "$*" >&2
}

say() {
	[ -z "$lib_terminal" ] || printf '\r\033[K' >&2
	printf '%s\n' "$*" >&2
}

fail() {
	say "$me: $*"
	exit 1
}

explain() {
	printf '%s\n' "$*" | fold -s -w 77 | sed '1s/^/=> /; 2,$s/^/   /; s/ *$//'
}

# What the script starts later must not keep the lock: it closes descriptor 9.
alone_in() {
	command -v flock >/dev/null || return 0
	mkdir -p "$1" && exec 9>"$1/lock" || return
	flock -w 60 9 || {
		sh scripts/test-ahead --hurry >&2
		flock 9
	}
}

bar() {
	awk -v done="$1" -v all="$2" 'BEGIN {
		filled = all > 0 ? int(20 * done / all) : 0
		for (i = 0; i < 20; i++)
			text = text (i < filled ? "#" : ".")
		printf "[%s] %d/%d\n", text, done, all
	}'
}

# shellcheck disable=SC2317 # called through $step_status
step_last_line() {
	lib_line=$(tail -n 1 "$1" | tr '\r\t' '  ')
	lib_count=$(printf '%s\n' "$lib_line" | sed -n 's|^\[\([0-9]*\)/\([0-9]*\)\].*|\1 \2|p')
	if [ -n "$lib_count" ]; then
		bar "${lib_count% *}" "${lib_count#* }"
	else
		printf '%s\n' "$lib_line"
	fi
}

# The command runs in the foreground: a shell makes a background command ignore SIGINT. The status
# line is drawn from the background instead, until the step ends or the script is gone.
lib_draw() { # name, log, seconds at the start
	while kill -0 $$ 2>/dev/null; do
		status "$1: $("$step_status" "$2")  $(($(date +%s) - $3)) s"
		sleep 0.5
	done
}

try() {
	lib_name=$1
	shift
	if [ -z "$logs" ]; then
		logs=$(mktemp -d "${TMPDIR:-/tmp}/trapline-$me.XXXXXX") || return
		logs_are_temporary=1
	fi
	mkdir -p "$logs" || return
	lib_log=$logs/$(printf '%s' "${lib_name%%:*}" | tr -c 'A-Za-z0-9._-' '-').log
	lib_start=$(date +%s)
	lib_drawer=
	: >"$lib_log"
	if [ -n "$lib_terminal" ]; then
		lib_draw "$lib_name" "$lib_log" "$lib_start" &
		lib_drawer=$!
	else
		printf '%s ...' "$lib_name" >&2
	fi
	lib_status=0
	"$@" >"$lib_log" 2>&1 || lib_status=$?
	if [ -n "$lib_drawer" ]; then
		kill "$lib_drawer" 2>/dev/null || :
		wait "$lib_drawer" 2>/dev/null || :
		printf '\r\033[K%s ...' "$lib_name" >&2
	fi
	lib_took="$(($(date +%s) - lib_start)) s"
	if [ "$lib_status" -ne 0 ]; then
		printf ' failed after %s\n' "$lib_took" >&2
		tr -s '\r\n' '\n\n' <"$lib_log" | tail -n 20 | sed 's/^/    /' >&2
		say "$me: step '$lib_name' failed with status $lib_status; its log is $lib_log"
		return "$lib_status"
	fi
	printf ' %s\n' "$lib_took" >&2
	if [ -n "$logs_are_temporary" ]; then
		rm -f "$lib_log"
		rmdir "$logs" 2>/dev/null && logs=
	fi
	return 0
}

step() {
	try "$@" || exit 1
}

tree_in() {
	lib_build=$1
	shift
	# After a failed "meson setup" no build.ninja exists, and a new one begins from nothing.
	if [ ! -f "$lib_build/build.ninja" ]; then
		step configure meson setup "$lib_build" "$@"
	fi
	step build ninja -C "$lib_build"
}

debian_cache=${XDG_CACHE_HOME:-$HOME/.cache}/trapline/fresh

debian_mirror() {
	cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
		sed -n 's/^URIs:[ ]*\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' |
		grep -v security | head -n 1
}

# A base is complete or absent, whatever ends this.
debian_make_base() { # release
	mkdir -p "$debian_cache" && lib_root=$(mktemp -d "${TMPDIR:-/tmp}/trapline-base.XXXXXX") || return
	lib_made=0
	{ debootstrap --variant=minbase "$1" "$lib_root" "$(debian_mirror)" &&
		rm -f "$lib_root"/var/cache/apt/archives/*.deb &&
		tar -C "$lib_root" -cf "$debian_cache/$1.$$" . &&
		mv "$debian_cache/$1.$$" "$debian_cache/$1.tar"; } || lib_made=1
	rm -rf --one-file-system "$lib_root" "$debian_cache/$1.$$"
	return $lib_made
}

debian_base() {
	[ -z "$(find "$debian_cache/$1.tar" -mtime -30 2>/dev/null)" ] || return 0
	[ -n "$(debian_mirror)" ] || {
		say "$me: cannot make a Debian system: no mirror in /etc/apt; name one in" \
			"/etc/apt/sources.list"
		return 1
	}
	try "base system" debian_make_base "$1" || {
		say "$me: cannot make a Debian system: debootstrap failed; is $(debian_mirror) in reach?"
		return 1
	}
}

# The host's sources are used, so that security updates are there; sid has none. Keys are in the system.
debian_settings() { # release, dir
	lib_sources=/etc/apt/sources.list.d/debian.sources
	if [ -f $lib_sources ] && [ "$1" != sid ]; then
		sed "s/bookworm/$1/g" $lib_sources >"$2$lib_sources"
		rm -f "$2/etc/apt/sources.list"
	fi
	# A mirror may be a snapshot, and the lists of sid are valid for a week.
	[ "$1" != sid ] || echo 'Acquire::Check-Valid-Until "false";' >"$2/etc/apt/apt.conf.d/99fresh"
	[ ! -f /etc/apt/apt.conf ] || cp /etc/apt/apt.conf "$2/etc/apt/"
	grep -lis proxy /etc/apt/apt.conf.d/* 2>/dev/null |
		while read -r f; do cp "$f" "$2/etc/apt/apt.conf.d/"; done
	cp -L /etc/resolv.conf "$2/etc/resolv.conf" 2>/dev/null || :
	cp /etc/hosts "$2/etc/hosts" 2>/dev/null || :
}

# Other users run programs there, so its "/" is open.
debian_unpack() {
	mkdir -p "$2" && chmod 755 "$2" && tar -C "$2" -xf "$debian_cache/$1.tar" && debian_settings "$1" "$2"
}

# What this machine has in /sys is there too: tracefs, bpf and control groups.
debian_mount() {
	mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
		mount -t devpts -o gid=5,mode=620 devpts "$1/dev/pts" &&
		mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm"
}
