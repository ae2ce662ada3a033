#!/bin/sh
# SPDX-License-Identifier: MIT
# test_options.sh TRAPLINE SOURCE BUILD - the options in code, in --help, in the pages and in the
# completion are the same; each that is missing or stale is named. And what a wrong one gives. TAP.
# shellcheck disable=SC2154 # variables of tap.sh

trapline=$1
source=$2
build=$3
set -- "$trapline" /
# shellcheck source=tests/cli/tap.sh
. "$source/tests/cli/tap.sh"
tab=$(printf '\t')

# same NAME: the options in $tmp/code and those in $tmp/there, one a line; -h and --help may be there.
same()
{
	sort -u "$tmp/code" >"$tmp/code.sorted"
	grep -vx -e -h -e --help "$tmp/there" | sort -u >"$tmp/there.sorted"
	{
		comm -23 "$tmp/code.sorted" "$tmp/there.sorted" | sed "s|^|missing in $1: |"
		comm -13 "$tmp/code.sorted" "$tmp/there.sorted" | sed "s|^|stale in $1: |"
	} >"$tmp/out"
	[ ! -s "$tmp/out" ]
}

# The options of a help text: `  -j, --json   ...`, `      --for TIME`.
options_of_help()
{
	"$trapline" "$1" --help | sed -n '/^options:/,$p' |
		sed -n 's/^  \(-.\), \(--[a-z-]*\).*/\1\n\2/p; s/^      \(--[a-z-]*\).*/\1/p'
}

# Those of a page: what .It describes, and what the synopsis names.
options_of_page()
{
	awk '
	/^\.S[hS] / { synopsis = /SYNOPSIS/ }
	/^\.It / || (synopsis && /^\.(Op|Fl|Oo|Ar|No|Sm|Cm)/) {
		for (i = 1; i < NF; i++) {
			if ($i != "Fl")
				continue
			# `Fl p Ns | Ns Fl -pid`; `Fl \-` alone is what stands before a command.
			name = $(i + 1)
			gsub(/\\-/, "-", name)
			if (name ~ /^-[a-z]/ && length(name) > 2)
				print "-" name
			else if (name ~ /^[a-zA-Z]$/)
				print "-" name
		}
	}' "$1"
}

"$trapline" --dump-options >"$tmp/dump"
commands=$(sed -n "s/^command$tab\([^$tab]*\)$tab.*/\1/p" "$tmp/dump")
[ "$(echo "$commands" | tr '\n' ' ')" = 'watch break record report race flow heap at throttle patch point patrol dap check ' ]
ok "commands_are_dumped_in_the_order_of_use" $?

"$trapline" --help >"$tmp/help"
for command in $commands help; do
	grep -q "^  $command  " "$tmp/help"
	ok "help_lists_$command" $?
done

[ -z "$("$trapline" --help | grep -n 'sweep')" ]
ok "help_does_not_list_old_commands" $?

for command in $commands; do
	awk -F '\t' -v command="$command" '$1 == "option" && $2 == command {
		print "--" $3
		if ($4 != "-")
			print "-" $4
	}' "$tmp/dump" >"$tmp/code"

	options_of_help "$command" >"$tmp/there"
	same "trapline $command --help"
	ok "help_of_${command}_has_its_options" $?

	"$trapline" "$command" --help >"$tmp/help"
	"$trapline" help "$command" | cmp -s - "$tmp/help"
	ok "help_${command}_is_${command}_help" $?

	[ "$(wc -L <"$tmp/help")" -le 90 ] && ! grep -q "$(printf "\033")" "$tmp/help"
	ok "help_of_${command}_fits_90_columns_and_has_no_colour_in_a_pipe" $?

	page=$source/man/trapline-$command.1
	options_of_page "$page" >"$tmp/there" 2>/dev/null
	same "man/trapline-$command.1"
	ok "page_of_${command}_has_its_options" $?

	echo "missing in man/trapline.1: trapline-$command(1)" >"$tmp/out"
	grep -q "^\.Xr trapline-$command 1" "$source/man/trapline.1"
	ok "trapline_1_refers_to_$command" $?
done

# --- completion, if there is one ---

# What bash offers for `trapline COMMAND --`, as it would be called for a user.
completed()
{
	PATH=${trapline%/*}:$PATH bash -c '
	. "$1"
	function=$(complete -p trapline | sed "s/.*-F \([^ ]*\).*/\1/")
	COMP_WORDS=(trapline "$2" "$3")
	COMP_CWORD=2
	COMP_LINE="trapline $2 $3"
	COMP_POINT=${#COMP_LINE}
	"$function" trapline "$3" "$2"
	printf "%s\n" "${COMPREPLY[@]}"' bash "$1" "$2" "$3" | sed 's/[= ]*$//'
}

completion=
for file in "$build"/completions/* "$source"/completions/*; do
	grep -qs '^ *complete .*-F' "$file" && completion=$file && break
done
for command in $commands; do
	if [ -z "$completion" ] || ! command -v bash >/dev/null; then
		ok "completion_of_${command}_has_its_options # SKIP bash, or its completion" 0
		continue
	fi
	awk -F '\t' -v command="$command" '$1 == "option" && $2 == command { print "--" $3 }' \
		"$tmp/dump" >"$tmp/code"
	completed "$completion" "$command" -- | grep '^--' >"$tmp/there"
	same "the completion of $command"
	ok "completion_of_${command}_has_its_options" $?
done

# --- colour ---

if command -v script >/dev/null; then
	escape=$(printf '\033')
	TERM=xterm script -qec "'$trapline' watch --help" /dev/null >"$tmp/out"
	grep -q "$escape\[1musage:$escape\[0m trapline watch" "$tmp/out" &&
		grep -q "$escape\[1moptions:$escape\[0m" "$tmp/out"
	ok "help_has_bold_headings_on_a_terminal" $?
	TERM=xterm NO_COLOR=1 script -qec "'$trapline' watch --help" /dev/null >"$tmp/out"
	grep -q '^options:' "$tmp/out" && ! grep -q "$escape" "$tmp/out"
	ok "no_colour_is_honoured" $?
else
	ok "help_has_bold_headings_on_a_terminal # SKIP script(1)" 0
	ok "no_colour_is_honoured # SKIP script(1)" 0
fi

# --- wrong options ---

# refused LINE ARGUMENT...: exit status 2, and this is all that is printed.
refused()
{
	line=$1
	shift
	"$trapline" "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(cat "$tmp/err")" = "$line" ] && [ ! -s "$tmp/out" ]
	ok "refused: $*" $?
}

refused "trapline: unknown command 'wacth'; did you mean watch?" wacth
refused "trapline: unknown command 'frobnicate'; see trapline --help" frobnicate
refused "trapline: unknown command 'rac'; did you mean race?" help rac
refused "trapline at: unknown option '--singal'; did you mean --signal?" at --singal ALRM
refused "trapline at: unknown option '--frobnicate'; see trapline at --help" at --frobnicate
refused "trapline at: ambiguous option '--s': write --signal or --snapshot or --stop" at --s
refused "trapline at: --json takes no value" at --json=yes
refused "trapline at: --limit needs a value" at --limit
refused "trapline at: unknown option '-J'; did you mean -j (--json)?" at -J
refused "trapline at: unknown option '-e'; did you mean --each?" at -e
refused "trapline at: unknown option '-x'; see trapline at --help" at -x
refused "trapline at: unknown option '-json'; did you mean --json?" at -json
refused "trapline throttle: invalid --for 'soon': expected a time (examples: 10 for seconds, 0.5, 20ms, 5m)" \
	throttle --for soon
refused "trapline throttle: invalid --pid 'x': expected a process id (example: 4711)" throttle -p x
refused "trapline throttle: --pid is given twice, 1 and 2: give one process" throttle -p 1 -p 2

finished
