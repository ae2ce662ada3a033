# SPDX-License-Identifier: MIT
#
# table.awk - TAP lines "ok - KERNEL SUITE: test" as a table, kernels x suites: passed/skipped/failed.

/^(not )?ok - [^ ]+ [^ ]+: / {
	failed = /^not/
	skipped = toupper($0) ~ /# *SKIP/
	sub(/^(not )?ok - /, "")
	kernel = $1
	suite = $2
	sub(/:$/, "", suite)
	if (!(kernel in column)) {
		column[kernel] = ++kernels
		kernel_at[kernels] = kernel
	}
	if (!(suite in row)) {
		row[suite] = ++suites
		suite_at[suites] = suite
	}
	count[kernel, suite, failed ? "failed" : skipped ? "skipped" : "passed"]++
}
END {
	printf "# %-20s", "suite"
	for (k = 1; k <= kernels; k++)
		printf " %12s", kernel_at[k]
	print ""
	for (s = 1; s <= suites; s++) {
		printf "# %-20s", suite_at[s]
		for (k = 1; k <= kernels; k++) {
			kernel = kernel_at[k]
			suite = suite_at[s]
			p = count[kernel, suite, "passed"] + 0
			q = count[kernel, suite, "skipped"] + 0
			f = count[kernel, suite, "failed"] + 0
			printf " %12s", p + q + f ? p "/" q "/" f : "-"
		}
		print ""
	}
}
