#!/bin/sh
# SPDX-License-Identifier: MIT
# test_window_programs.sh PRELOAD - whole programs in a window, from before main() to the end: same output,
# same status, and not one instruction refused. TAP.
# shellcheck disable=SC2016 # the variables are those of perl, awk and the shells that run
set -u
preload=$1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
failed=0
may_refuse=0
seq 4000 | awk '{ print ($1 * 7919) % 20011, "line", $1 % 13 }' >"$work/in"
printf 'int f(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * i ^ x; return s; }\n' >"$work/f.c"
cd "$work" || exit 1

# check HOOK NAME COMMAND...: HOOK is none, block or access. The command reads the file "in".
check() {
	hook=$1
	name=$2
	shift 2
	count=$((count + 1))
	command -v "$1" >/dev/null || {
		echo "ok $count - $name # SKIP $1 is not installed"
		return
	}
	"$@" <in >native.out 2>native.err
	native=$?
	rm -f report
	WINDOW_HOOK=$hook WINDOW_REPORT=$work/report LD_PRELOAD=$preload "$@" <in >window.out 2>window.err
	window=$?
	# The program's own line is the last one: it may start others.
	why=
	[ "$native" = "$window" ] || why="status $native, in the window $window"
	cmp -s native.out window.out || why="other output"
	cmp -s native.err window.err || why="other errors: $(head -c 300 window.err)"
	grep -q 'instructions=[1-9][0-9][0-9][0-9][0-9]' report 2>/dev/null || why="no window: $(cat report)"
	! grep -v " refused=$may_refuse\$" report >&2 || why="instructions were refused"
	if [ -z "$why" ]; then
		echo "ok $count - $name"
		sed 's/^/# /' report
	else
		echo "not ok $count - $name"
		echo "# $why"
		failed=1
	fi
}

# What is found in the path may be a script that looks for it.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)
cc1=$(${CC:-gcc} -print-prog-name=cc1 2>/dev/null)
threads='import threading
sums = []
def run(n):
    sums.append(sum(i * n for i in range(3000)))
threads = [threading.Thread(target=run, args=(n,)) for n in range(5)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(sums))'
server='import socket, threading
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
def serve():
    for _ in range(6):
        c, _a = s.accept()
        threading.Thread(target=lambda c=c: (c.sendall(c.recv(99)[::-1]), c.close())).start()
t = threading.Thread(target=serve); t.start()
for i in range(6):
    c = socket.create_connection(s.getsockname()); c.sendall(b"request %d" % i)
    print(c.recv(99)); c.close()
t.join()'
check none "ls" ls -la /usr/lib
check none "sort" sort -n --parallel=1
check access "sort, accesses seen" sort -n --parallel=1
check none "sort in threads" sort -n --parallel=4 -S 100k
check none "sha256sum" sha256sum
check block "sha256sum, blocks seen" sha256sum
check none "xz" xz -T1 -c -1
check none "xz in threads" xz -T2 --block-size=60000 -c -1
check none "gzip" gzip -nc
check none "bzip2" bzip2 -c
check none "zstd" zstd -q -c
check none "openssl" openssl enc -aes-256-cbc -pass pass:word -S 0102030405060708 -pbkdf2 -iter 2000
check none "openssl signs" openssl dgst -sha512 -hmac key
check none "perl" perl -ne '$s += $_; $h{$_ % 97}++; END { print "$s ", join(",", map { $h{$_} } sort keys %h), "\n" }'
check none "python" "$python" -c 'import json, re, hashlib
s = json.dumps({i: str(i * i) for i in range(2000)})
print(len(s), hashlib.md5(s.encode()).hexdigest(), len(re.findall("9+", s)))'
check none "python in threads" "$python" -c "$threads"
check none "a server in threads" "$python" -c "$server"
check none "a compiler" "$cc1" -O2 -quiet f.c -o -
check none "awk" awk '{ n[$3] += $1 } END { for (i = 0; i < 13; i++) print i, n[i] }'
check none "sed" sed -E 's/([0-9]+) line/\1\1/; y/123/abc/'
check none "grep" grep -cE '^1[0-9]*7 l'
check none "a shell that forks" sh -c 'for i in 1 2 3; do echo $i | tr 1 2; done; echo "$(wc -l)"'
lua='local s = 0
for round = 1, 40 do
	local f = loadstring("local s = 0; for i = 1, 3000 do s = (s * 3 + i * " .. round .. ") % 65521 end return s")
	s = s + f()
	if round % 8 == 0 then jit.flush() end
end
print(s)'
check none "code made by luajit" luajit -e "$lua"
# It sets the flag that makes accesses fault that are not aligned, to see whether the processor has it.
may_refuse='[01]'
check none "code made by a java machine" java -Xshare:off -XX:TieredStopAtLevel=1 -version
may_refuse=0
check none "readelf" readelf -Ws /bin/sh
check none "git" git --version
echo "1..$count"
exit $failed
