#!/bin/sh
# SPDX-License-Identifier: MIT
# test_completion.sh TRAPLINE SOURCE [FOLDER] - the completion scripts: what they offer, on a sample of
# option tables, and that those of the build, in FOLDER, offer what each command's --help lists. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline and tmp come from there
. "$(dirname "$0")/tap.sh"
trapline=$(readlink -f "$trapline")
source=$2
built=${3:-}
here=$(cd "$(dirname "$0")" && pwd)

# make_scripts FOLDER: as the build does, from standard input.
make_scripts()
{
	mkdir -p "$1"
	cat >"$1/dump"
	"$source/completions/make-completion" bash <"$1/dump" >"$1/trapline" &&
		"$source/completions/make-completion" zsh <"$1/dump" >"$1/_trapline"
}

# bash_offers WORD...: for the last of them, sorted, in one line. COMP_WORDBREAKS has "=".
bash_offers()
{
	# shellcheck disable=SC2016 # bash's
	bash --norc -c '. "$1" && shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_trapline && printf "%s\n" "${COMPREPLY[@]}"' bash "$script" "$@" \
		2>"$tmp/err" | LC_ALL=C sort -u >"$tmp/out"
	[ ! -s "$tmp/err" ] && offered=$(paste -sd ' ' "$tmp/out")
}

# offers NAME WANTED WORD...
offers()
{
	name=$1
	wanted=$2
	shift 2
	bash_offers "$@" && [ "$offered" = "$wanted" ]
	ok "bash_$name" $?
}

make_scripts "$tmp/sample" <"$here/options.sample" 2>"$tmp/err"
ok "scripts_are_made_of_the_tables" $?
# refused NAME LINE: no script is made when the input ends with this line.
refused()
{
	printf '%b' "$2" | cat "$here/options.sample" - | make_scripts "$tmp/wrong" 2>"$tmp/err"
	[ $? = 1 ] && grep -q 'make-completion: line 17: ' "$tmp/err"
	ok "$1" $?
}
refused "an_unknown_kind_is_refused" 'option\tat\tx\t-\tcolour\tX\thelp\n'
refused "an_option_of_no_command_is_refused" 'option\tsweep\tx\t-\tflag\t-\thelp\n'
refused "another_line_is_refused" 'usage: trapline\n'
make_scripts "$tmp/wrong" </dev/null 2>"$tmp/err"
[ $? = 1 ]
ok "so_is_none" $?

cd "$tmp" || exit 1
mkdir folder
: >'a file'
: >folder/file
script=$tmp/sample/trapline
offers "commands" "--help --version -V -h at help race watch" trapline ''
offers "a_command" "watch" trapline w
offers "commands_to_help" "race" trapline help r
offers "options" "--check --help --signal -h" trapline at -
offers "long_options" "--gen-suppressions" trapline race --g
offers "letters" "-p" trapline watch -p
offers "options_after_arguments" "--if" trapline watch -p 1 x.y --stack --i
offers "choices" "r rw" trapline watch --on r
offers "choices_after_an_equals_sign" "r rw w" trapline watch --on =
offers "choices_begun_after_an_equals_sign" "r rw" trapline watch --on = r
offers "choices_in_one_word" "--on=r --on=rw" trapline watch --on=r
offers "an_argument_that_may_be_left_out_after_an_equals_sign" "tsan valgrind" \
	trapline race --gen-suppressions =
offers "and_not_without" "a file" trapline race --gen-suppressions a
offers "files_of_a_long_option" "a file" trapline race --suppressions a
offers "files_of_a_letter" "folder" trapline watch -o fo
offers "files_in_folders" "folder/file" trapline watch --output = folder/
offers "nothing_for_other_arguments" "" trapline watch --if ''
offers "nothing_for_numbers" "" trapline watch -n ''
offers "files_for_what_is_no_option" "a file" trapline watch -s a
offers "signals" "SIGUSR1 SIGUSR2" trapline at --signal SIGUS
offers "commands_of_an_option" "sleep" trapline at --check sleep
sleep 60 &
pid=$!
started="$started $pid"
bash_offers trapline watch --pid '' && grep -qx "$pid" "$tmp/out" && ! grep -q '[^0-9]' "$tmp/out"
ok "bash_processes" $?
PATH=$tmp/bin:$PATH
mkdir bin
printf '#!/bin/sh\n' >bin/trapline-unique
chmod 755 bin/trapline-unique
offers "a_program_after_two_dashes" "trapline-unique" trapline race -- trapline-u
offers "files_after_a_program" "a file" trapline race --vary A=1 -- ls -l a
offers "options_of_a_program_are_its_own" "" trapline race -- ls --g
offers "nothing_for_an_unknown_command" "" trapline sweep --

# zsh_completes NAME LINE WANTED
lines=
zsh_completes()
{
	lines="$lines$1|$2|$3
"
}
zsh_completes "a_command" 'trapline wat' 'trapline watch '
zsh_completes "a_command_to_help" 'trapline help ra' 'trapline help race '
zsh_completes "an_option" 'trapline watch --st' 'trapline watch --stack '
zsh_completes "an_option_with_an_argument" 'trapline watch --o' 'trapline watch --o'
zsh_completes "no_option_twice" 'trapline watch -s --st' 'trapline watch -s --st'
zsh_completes "except_a_list" 'trapline race --vary=A --va' 'trapline race --vary=A --vary='
zsh_completes "a_choice" 'trapline watch --on rw' 'trapline watch --on rw '
zsh_completes "a_choice_after_an_equals_sign" 'trapline race --gen-suppressions=v' \
	'trapline race --gen-suppressions=valgrind '
zsh_completes "a_file" 'trapline watch -o fold' 'trapline watch -o folder/'
zsh_completes "a_file_after_a_letter" 'trapline watch -oa' 'trapline watch -oa\ file '
zsh_completes "a_file_that_is_no_option" 'trapline watch -s a' 'trapline watch -s a\ file '
zsh_completes "a_process" "trapline watch --pid $pid" "trapline watch --pid $pid "
zsh_completes "nothing_else_for_it" 'trapline watch --pid fold' 'trapline watch --pid fold'
zsh_completes "a_program_after_two_dashes" 'trapline race -- trapline-u' 'trapline race -- trapline-unique '
zsh_completes "a_file_after_a_program" 'trapline race -- ls fold' 'trapline race -- ls folder/'
if command -v zsh >/dev/null; then
	zsh -n "$tmp/sample/_trapline" 2>"$tmp/err"
	ok "zsh_reads_its_script" $?
	old_ifs=$IFS
	IFS='
'
	# shellcheck disable=SC2046 # one argument a line
	set -- $(printf '%s' "$lines" | cut -d '|' -f 2)
	IFS=$old_ifs
	timeout -k 2 120 zsh -f "$here/complete.zsh" "$tmp/sample" "$@" >"$tmp/completed" 2>"$tmp/err"
	printf '%s' "$lines" >"$tmp/lines"
	while IFS='|' read -r name line wanted; do
		grep -Fx -e "$line -> $wanted" "$tmp/completed" >/dev/null
		status=$?
		grep -F -e "$line -> " "$tmp/completed" >"$tmp/out"
		ok "zsh_$name" $status
	done <"$tmp/lines"
else
	ok "zsh # SKIP no zsh" 0
fi

# same NAME: what is wanted is in $tmp/wanted, what is offered in $tmp/offered.
same()
{
	diff "$tmp/wanted" "$tmp/offered" >"$tmp/out"
	ok "$1" $?
}

# zsh_offers COMMAND: all its options, by what its script gives to _arguments.
zsh_offers()
{
	# shellcheck disable=SC2016 # zsh's
	zsh -f -c '_arguments() { print -rl -- "$@" }
		words=(trapline "$2" -) CURRENT=3
		. "$1"' zsh "$built/_trapline" "$1" 2>"$tmp/err" | grep -- '\[' |
		sed 's/^([^)]*)//; s/^\*//; s/\[.*//; s/[+=]*-*$//' | LC_ALL=C sort
}

# all_commands: as --help lists them
all_commands()
{
	"$trapline" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | LC_ALL=C sort
}

# same NAME: what is wanted is in $tmp/wanted, what is offered in $tmp/offered.
same()
{
	diff "$tmp/wanted" "$tmp/offered" >"$tmp/out"
	ok "$1" $?
}

if [ -n "$built" ]; then
	script=$built/trapline
	bash_offers trapline ''
	grep -v '^-' "$tmp/out" >"$tmp/offered"
	all_commands >"$tmp/wanted"
	same "the_commands_of_the_build_are_those_of_help"
	for name in $(all_commands | grep -vx help); do
		"$trapline" "$name" --help | sed -n '/^options:/,/^$/p' |
			grep -oE '^  (-., )?--[a-z-]+|^      --[a-z-]+' | tr -d ' ' | tr ',' '\n' |
			LC_ALL=C sort >"$tmp/wanted"
		bash_offers trapline "$name" -
		cp "$tmp/out" "$tmp/offered"
		same "bash_offers_the_options_of_${name}_as_its_help_lists_them"
		command -v zsh >/dev/null || continue
		zsh_offers "$name" >"$tmp/offered"
		same "zsh_offers_the_options_of_${name}_as_its_help_lists_them"
	done
fi
finished
