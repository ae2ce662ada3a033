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

# The parts of a kernel's name: 6.12 is the flavour for clouds, 6.12-rt the one for real time.
version_of() { # kernel
	echo "${1%-rt}"
}

flavour_of() { # kernel
	case $1 in *-rt) echo rt ;; *) echo cloud ;; esac
}

# Until 7.0 linux-image-* has the kernel; later that is a list of packages, and linux-binary-* has it.
newest_package() { # kernel, apt's options...
	flavour=$(flavour_of "$1")
	version=$(version_of "$1" | sed 's/\./\\./g')
	shift
	for kind in binary image; do
		apt-cache "$@" pkgnames "linux-$kind-" 2>/dev/null |
			grep -E -- "^linux-$kind-${version}[.][0-9].*[0-9]-$flavour-$arch\$" |
			sort -V | tail -n 1 | grep . && return
	done
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

# Complete under its name or not at all: several machines may fetch at once.
download_kernel() { # package, where to, apt's options...
	package=$1
	into=$2
	shift 2
	download "$package" "$@" &&
		dpkg-deb --fsys-tarfile "$tmp/package/"*.deb |
		tar -x -O --wildcards './boot/vmlinuz-*' './*/vmlinuz' 2>/dev/null >"$tmp/image"
	[ -s "$tmp/image" ] && cp "$tmp/image" "$into.$$" && mv "$into.$$" "$into"
}

# Lists of our own, so that neither root nor the machine's lists are needed, and a machine with one
# release of Debian finds the kernels of the others.
own_options() {
	echo "-o Dir::State::Lists=$tmp/apt/lists -o Dir::Cache=$tmp/apt/cache" \
		"-o Dir::Etc::SourceList=$tmp/apt/sources.list -o Dir::Etc::SourceParts=/dev/null"
}

suites_of() { # kernel
	case $1 in
	5.10*) echo bullseye bullseye-security ;;
	6.1 | 6.1-rt | 6.1.*) echo bookworm bookworm-security ;;
	6.12*) echo bookworm-backports ;;
	*) echo sid ;;
	esac
}

own_lists() { # suites, apt's options...
	suites=$1
	shift
	mkdir -p "$tmp/apt/lists/partial" "$tmp/apt/cache/archives/partial" || return
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	for suite in $suites; do
		case $suite in *-security) archive=debian-security ;; *) archive=debian ;; esac
		echo "deb [signed-by=$keys] http://deb.debian.org/$archive $suite main"
	done >"$tmp/apt/sources.list"
	apt-get "$@" -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
		-o Acquire::Languages=none update >&2
}

# The newest image of a kernel that was fetched before.
cached_image() { # kernel
	find "$cache" -regextype posix-extended -regex \
		".*/linux-(image|binary)-$(version_of "$1" | sed 's/\./\\./g')[.][0-9].*[0-9]-$(flavour_of "$1")-$arch" |
		sort -V | tail -n 1
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

# Rows that say no since some kernel's default or by its command line, TRAPLINE_VM_BOOT.
refused_later() { # kernel
	case ${TRAPLINE_VM_BOOT:-} in
	*force_override=never*) printf '%s\n' text_by_mem text_by_tracee ;;
	*force_override=always*) ;;
	*force_override=ptrace*) echo text_by_mem ;;
	*) ! is_at_least 7 "$1" || echo text_by_mem ;;
	esac
}

# The rows that must say no are in $tmp/expected; rows named after it, as a pattern, say anything. So do
# those that trapline check came not to in its 4 seconds: their names are in $tmp/untried.
compare_rows() { # name, pattern
	jq -r '.features[] | select(.evidence |
		test("^(not tried: out of time|the probe did not end in time)$")).name' "$tmp/check" >"$tmp/untried"
	sed 's/^/# no time for the row /' "$tmp/untried"
	jq -r '.features[] | select(.ok | not).name' "$tmp/check" |
		grep -vxE "$2" | grep -vxF -f "$tmp/untried" | sort >"$tmp/noes"
	grep -vxF -f "$tmp/untried" "$tmp/expected" | diff - "$tmp/noes" >"$tmp/diff"
	status=$?
	ok $status "$1 check: its rows say no where this machine cannot, and only there"
	sed -n 's/^</# yes, against expectation:/p; s/^>/# no, against expectation:/p' "$tmp/diff"
}

# From TAP, kernels x suites: how many passed, were skipped, failed.
print_table() { # file
	echo "# passed/skipped/failed"
	awk -f "$here/table.awk" "$1"
}

# All output of a function, then the table and the plan. Fails where a test did.
say_all() { # function, arguments...
	"$@" >"$tmp/all"
	cat "$tmp/all"
	print_table "$tmp/all"
	echo "1..$(grep -cE '^(not )?ok ' "$tmp/all")"
	! grep -q '^not ok' "$tmp/all"
}
