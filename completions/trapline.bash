# bash completion for trapline. SPDX-License-Identifier: MIT
# The build makes the tables from the option tables of the command: completions/make-completion.

_trapline_commands=(
	# @COMMANDS@
)

# Sets options: those of the command $1.
_trapline_options()
{
	case $1 in
	# @OPTIONS@
	esac
}

# Sets kind: what completes the argument of the option $2 of the command $1.
_trapline_argument()
{
	case "$1 $2" in
	# @ARGUMENTS@
	esac
}

_trapline_files()
{
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# The command at word $1 and its arguments.
_trapline_other_command()
{
	local cur=${COMP_WORDS[COMP_CWORD]}

	if declare -F _command_offset >/dev/null; then # of the package bash-completion
		_command_offset "$1"
	elif ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	else
		_trapline_files "$cur"
	fi
}

# The argument of an option: $1 as its kind says, with $2 before each reply.
_trapline_complete_argument()
{
	local pids

	case $kind in
	any) ;;
	file) _trapline_files "$1" ;;
	pid)
		pids=(/proc/[0-9]*)
		mapfile -t COMPREPLY < <(compgen -W "${pids[*]#/proc/}" -- "$1")
		;;
	signal) mapfile -t COMPREPLY < <(compgen -A signal -- "${1:-SIG}") ;;
	command) mapfile -t COMPREPLY < <(compgen -c -- "$1") ;;
	*) mapfile -t COMPREPLY < <(compgen -W "${kind#\?}" -- "$1") ;;
	esac
	COMPREPLY=("${COMPREPLY[@]/#/$2}")
}

_trapline()
{
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
	local option=${COMP_WORDS[COMP_CWORD - 1]} prefix='' has_equals='' kind='' options='' i

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(
			compgen -W "${_trapline_commands[*]} -h --help -V --version" -- "$cur")
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			_trapline_other_command $((i + 1))
			return
		fi
	done
	if [[ $command == help ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${_trapline_commands[*]}" -- "$cur")
		return
	fi
	# --option=argument: one word or three, as COMP_WORDBREAKS has it.
	if [[ $cur == = ]]; then
		has_equals=1 cur=''
	elif [[ $option == = ]]; then
		has_equals=1 option=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $cur == --*=* ]]; then
		has_equals=1 option=${cur%%=*} cur=${cur#*=} prefix=$option=
	fi
	_trapline_argument "$command" "$option"
	# An argument that may be left out follows "=" only.
	if [[ $kind && ($has_equals || $kind != \?*) ]]; then
		_trapline_complete_argument "$cur" "$prefix"
	elif [[ $cur == -* ]]; then
		_trapline_options "$command"
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
	else
		_trapline_files "$cur"
	fi
}

complete -F _trapline trapline
