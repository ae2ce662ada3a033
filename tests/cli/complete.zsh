# SPDX-License-Identifier: MIT
# complete.zsh FOLDER LINE... - complete each LINE as zsh does at a terminal, with the script
# _trapline of FOLDER, and print "LINE -> completed line".
zmodload zsh/zpty || exit 1
folder=$1
shift

# Reads what the shell prints until it is $1.
expect()
{
	zpty -r -m shell REPLY "*$1*" || { print -u2 "no $1 from the shell: $REPLY"; exit 1; }
}

zpty shell zsh -f -i
# A line is printed between marks that are not in what was typed.
zpty -w shell "PS1= PS2= RPS1=; stty -echo; fpath=(${(q)folder} \$fpath)
autoload -U compinit && compinit -D -u
show() { print -r -- \"<<\"\"\$BUFFER>>\"; BUFFER=; zle redisplay }
zle -N show; bindkey '^X' show; bindkey '^I' complete-word; unsetopt beep
setopt no_list_ambiguous no_auto_menu no_auto_remove_slash; TERM=dumb; COLUMNS=500
print ready'' now"
expect 'ready now'
for line; do
	zpty -w -n shell "$line"$'\t\x18'
	expect '<<*>>'
	reply=${REPLY##*<<}
	print -r -- "$line -> ${reply%%>>*}"
done
zpty -d shell
