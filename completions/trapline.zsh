#compdef trapline
# zsh completion for trapline. SPDX-License-Identifier: MIT
# The build makes the tables from the option tables of the command: completions/make-completion.

_trapline_commands()
{
	local -a commands

	commands=(
		# @COMMANDS@
	)
	_describe -t commands command commands
}

_trapline_pids()
{
	local -a pids
	local pid name

	for pid in /proc/<->(N:t); do
		{ read -r name </proc/$pid/comm && pids+=("$pid:${name//:/\\:}") } 2>/dev/null
	done
	_describe -t processes 'process id' pids
}

_trapline()
{
	local -a specs
	local -i dashes=${words[(i)--]}

	if ((dashes < CURRENT)); then
		# A command line of its own.
		shift $dashes words
		((CURRENT -= dashes))
		_normal
		return
	fi
	if ((CURRENT == 2)); then
		_arguments '(- *)'{-h,--help}'[print the commands]' \
			'(- *)'{-V,--version}'[print the version]' '1: :_trapline_commands'
		return
	fi
	shift words
	((CURRENT--))
	if [[ $words[1] == help ]]; then
		_trapline_commands
		return
	fi
	specs=('(- *)'{-h,--help}'[print the options]' '*:file:_files')
	case $words[1] in
	# @OPTIONS@
	*) return 1 ;;
	esac
	_arguments -s -S : $specs
}

_trapline "$@"
