# shellcheck shell=sh disable=SC2034,SC2154 # variables go both ways
# SPDX-License-Identifier: MIT
#
# common.sh - read by run and run_arm64: packages by apt-get, and TAP. Wants $tmp and $arch, the
# name of Debian's architecture.

cache=${TRAPLINE_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/trapline/kernels}

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

newest_package() { # kernel, apt's options...
	kernel=$1
	shift
	apt-cache "$@" pkgnames "linux-image-$kernel." 2>/dev/null |
		grep -E -- "-cloud-$arch\$" | sort -V | tail -n 1
}

# Into $tmp/package.
download() { # package, apt's options...
	package=$1
	shift
	rm -rf "$tmp/package"
	mkdir "$tmp/package" &&
		(cd "$tmp/package" && apt-get "$@" -qq -o Acquire::Retries=1 \
			-o Acquire::http::Timeout=20 -o APT::Sandbox::User= \
			download "$package" >&2)
}

download_kernel() { # package, where to, apt's options...
	package=$1
	into=$2
	shift 2
	download "$package" "$@" &&
		dpkg-deb --fsys-tarfile "$tmp/package/"*.deb |
		tar -x -C "$tmp/package" --wildcards './boot/vmlinuz-*' &&
		mv "$tmp/package/boot/"vmlinuz-* "$into"
}

# Lists of our own, so that neither root nor the machine's lists are needed.
own_lists() {
	mkdir -p "$tmp/apt/lists/partial" "$tmp/apt/cache/archives/partial" &&
		apt-get "$@" -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 update >&2
}

ok() { # status, text
	if [ "$1" = 0 ]; then
		echo "ok - $2"
	else
		echo "not ok - $2"
	fi
}

# $build/vm-NAME.log as TAP; the rows of trapline check go to $tmp/check.
say_log() { # name
	awk -v kernel="$1" -v check="$tmp/check" -f "$here/tap.awk" "$build/vm-$1.log" >"$tmp/tap"
	cat "$tmp/tap"
	grep -q '^@done' "$build/vm-$1.log" && return
	ok 1 "$1: the machine came to the end of its tests"
	tail -n 20 "$build/vm-$1.console" | tr -d '\r' | sed 's/^/# /'
}

is_at_least() { # version, kernel
	[ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# Rows that old kernels say no to, whatever the processor.
came_later() { # kernel
	is_at_least 6.6 "$1" || echo uprobe_multi
	is_at_least 6.10 "$1" || echo bpf_veto
}

# The rows that must say no are in $tmp/expected; rows named after it, as a pattern, say anything.
compare_rows() { # name, pattern
	jq -r '.features[] | select(.ok | not).name' "$tmp/check" |
		grep -vxE "$2" | sort >"$tmp/noes"
	diff "$tmp/expected" "$tmp/noes" >"$tmp/diff"
	status=$?
	ok $status "$1 check: its rows say no where this machine cannot, and only there"
	sed -n 's/^</# yes, against expectation:/p; s/^>/# no, against expectation:/p' "$tmp/diff"
}

# All output of a function, then the plan. Fails where a test did.
say_all() { # function, arguments...
	"$@" >"$tmp/all"
	cat "$tmp/all"
	echo "1..$(grep -cE '^(not )?ok ' "$tmp/all")"
	! grep -q '^not ok' "$tmp/all"
}
