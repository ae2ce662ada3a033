# SPDX-License-Identifier: MIT
# page.awk - page.html with its parts, as one string for C. folder: where the parts are.
# A comment of a whole line stays in the source.
function put(line) {
	gsub(/[\\"]/, "\\\\&", line)
	print "\"" line "\\n\""
}
/^@INCLUDE / {
	file = folder "/" $2
	while ((got = (getline line <file)) > 0)
		if (line !~ /^[ \t]*\/\*.*\*\/$/)
			put(line)
	if (got < 0) {
		print "page.awk: cannot read " file >"/dev/stderr"
		exit 1
	}
	close(file)
	next
}
{ put($0) }
