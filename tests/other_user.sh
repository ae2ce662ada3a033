# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # $trapline and $tmp are the script's, $not_lent is for it
# other_user.sh - for tests that act as another user. A build in a home folder of mode 700 is not in
# the reach of that user: what it runs is copied. $trapline and $tmp must be set.

as_user='setpriv --reuid=65534 --regid=65534 --clear-groups'

# lend PROGRAM...: $lent is a folder with the command, its agents and these programs, which $as_user
# can run. On failure $not_lent has the missing thing.
lend()
{
	not_lent="root, to act as another user"
	[ "$(id -u)" = 0 ] || return
	not_lent="setpriv"
	command -v setpriv >/dev/null || return
	lent=$tmp/user
	not_lent="a temporary folder that another user can reach, instead of $tmp"
	chmod 755 "$tmp" && mkdir -m 755 "$lent" &&
		cp "$trapline" "$(dirname "$trapline")"/libtrapline-*.so "$@" "$lent" &&
		$as_user test -x "$lent/trapline"
}
