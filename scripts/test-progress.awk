# SPDX-License-Identifier: MIT
# test-progress.awk - the status line of scripts/test: the count of tests, the running tests, and the
# time left by the durations of the last run. Before each file an argument gives its kind:
#	kind=durations	name <tab> seconds
#	kind=chosen	name <tab> command
#	kind=output	what meson prints: a line for each test that has ended
#	kind=running	seconds since the epoch when it began <space> command
# "now" is the time in seconds since the epoch.
BEGIN { FS = "\t" }
kind == "durations" { seconds[$1] = $2; next }
kind == "chosen" { name_of[$2] = $1; all++; next }
kind == "output" && /^ *[0-9]+\/[0-9]+ / {
	split($0, word, " ")
	is_done[word[4]] = 1
	done++
	next
}
kind == "running" {
	space = index($0, " ")
	name = name_of[substr($0, space + 1)]
	if (name == "" || is_done[name])
		next
	age = now - substr($0, 1, space - 1)
	spent[name] = age
	text = text (text == "" ? "" : ", ") name " " age " s"
}
END {
	for (command in name_of) {
		name = name_of[command]
		if (is_done[name])
			continue
		if (!(name in seconds))
			unknown++
		else if (seconds[name] > spent[name])
			left += seconds[name] - spent[name]
	}
	if ("@parallel" in seconds && seconds["@parallel"] > 0)
		left *= seconds["@parallel"]
	for (i = 0; i < 20; i++)
		bar = bar (all > 0 && i < int(20 * done / all) ? "#" : ".")
	printf "[%s] %d/%d", bar, done, all
	if (!unknown && done < all)
		printf ", %s left", (left >= 90 ? int(left / 60 + 0.5) " min" : int(left + 0.5) " s")
	printf "; %s\n", (text == "" ? "no test runs" : text)
}
