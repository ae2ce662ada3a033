# SPDX-License-Identifier: MIT
#
# tap.awk -v kernel=NAME -v check=FILE - what the test machine wrote (see init.c), as one TAP
# stream without numbers. The output of the program "check" goes to FILE instead.
#
# A program that ends badly, or says less than its plan, without a "not ok" line is one failed
# test more. cmocka writes why it skips before it says that it did.

function name_of(line) {
	sub(/^ *(not )?ok */, "", line)
	sub(/^[0-9]+ */, "", line)
	sub(/^- */, "", line)
	sub(/# *SKIP */, "", line)
	return kernel " " program ": " line
}

function end_program(how, number) {
	good = how == "exit" && number == 0
	if (program == "check") {
		# 1: watching does not work; its rows are compared all the same.
		good = how == "exit" && number <= 1
		print (good ? "ok - " : "not ok - ") kernel " check: ends with a verdict"
	} else if (said < plan || (!good && !failed) || !said) {
		print "not ok - " kernel " " program ": " said + 0 " of " plan + 0 \
			" tests, then " how " " number
	}
	program = ""
}

/^@begin / { program = $2; plan = said = failed = 0; reason = ""; next }
/^@end / { end_program($3, $4); next }
program == "check" && !/^#/ { print >check; next }
/^1\.\.[0-9]/ { plan = substr($1, 4) + 0; next }
/^# skipped: / { reason = substr($0, 12) }
# cmocka calls a skipped test "not ok".
/^(not )?ok/ && toupper($0) ~ /# *SKIP/ {
	said++
	print "ok - " name_of($0) " # SKIP " reason
	reason = ""
	next
}
/^(not )?ok/ {
	said++
	failed += /^not/
	print (/^not/ ? "not ok - " : "ok - ") name_of($0)
	next
}
program != "" && NF { print (/^#/ ? "" : "# ") $0 }
END {
	if (program != "")
		end_program("no", "end")
}
