#!/bin/sh
# SPDX-License-Identifier: MIT
# test_commit_msg.sh SOURCE - the hook of git refuses a message that gives no reason, and says what is wrong. TAP.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
source=$(cd "$1" && pwd)

# is NAME STATUS TEXT [WORDS]: the hook's status for a message, and words of what it says.
is()
{
	printf '%b' "$3" >"$tmp/message"
	"$source/scripts/commit-msg" "$tmp/message" 2>"$tmp/err"
	[ $? = "$2" ] && if [ "$2" = 0 ]; then [ ! -s "$tmp/err" ]; else grep -q "$4" "$tmp/err"; fi
	ok "$1" $?
}

long=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
is a_reason_is_enough 0 'heap: draw at random\n\nThe same blocks were chosen in each run.\n'
is trivial_is_enough 0 'man: a word\n\ntrivial\n'
is no_body_is_refused 1 'heap: draw at random\n' 'there is no body'
is comments_are_no_body 1 'heap: draw at random\n\n# On branch main\n' 'there is no body'
is a_diff_is_no_body 1 'heap: draw\n\ndiff --git a/x b/x\n+x\n' 'there is no body'
is a_body_begins_after_an_empty_line 1 'heap: draw\nat random\nreason\n' 'second line is not empty'
is a_long_subject_is_refused 1 "heap: $long\n\nreason\n" 'over 72'
is seventy_two_characters_are_not_long 0 "h: $(echo $long | cut -c1-69)\n\nreason\n"
is characters_are_counted_and_not_bytes 0 "h: $(echo $long | cut -c1-68)ä\n\nreason\n"
is no_area_is_refused 1 'draw at random\n\nreason\n' 'no area'
is a_full_stop_is_refused 1 'heap: draw at random.\n\nreason\n' 'full stop'
is what_is_squashed_later_needs_no_area 0 'fixup! heap: draw\n\ntrivial\n'
finished
