#!/bin/sh
# SPDX-License-Identifier: MIT
# test_growth.sh SOURCE - the fit of bench/growth names what is worse than n log n, and its page is whole. TAP.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
source=$(cd "$1" && pwd)
need python3

# A name, whether it is named, and costs as a function of n with noise e.
PYTHONPATH=$source/bench/growth PYTHONDONTWRITEBYTECODE=1 python3 - "$tmp/page" >"$tmp/found" 2>"$tmp/err" <<'END'
import math, random, sys
import growth
random.seed(4)
noise = lambda: 1 + (random.random() - 0.5) / 10
ns = [1, 10, 100, 1000, 3000, 10000]
for name, is_named, cost in [
        ("a_square_is_named", True, lambda n: 100 + n * n / 1000),
        ("a_power_of_three_halves_is_named", True, lambda n: 100 + n ** 1.5 / 10),
        ("n_log_n_is_not_named", False, lambda n: 100 + n * math.log(n + 1) / 10),
        ("a_line_is_not_named", False, lambda n: 100 + n / 10),
        ("a_constant_is_not_named", False, lambda n: 100),
        ("a_square_that_costs_nothing_is_not_named", False, lambda n: 1000 + n * n / 1e7)]:
    costs = [cost(n) * noise() for n in ns]
    row = {"line": "events", "mechanism": "uprobe", "n": ns, "armed_ms": costs, "cpu_ms": costs}
    print(name, int(bool(growth.judge(row)) != is_named))
row = {"line": "events", "mechanism": "</script>", "n": [1, 10], "armed_ms": [1, 2], "cpu_ms": [1, 2]}
growth.judge(row)
growth.write_page(sys.argv[1], [row], {"date": "2026-11-28", "kernel": "6", "cpus": 2, "load": 1, "rounds": 3})
END
[ "$(wc -l <"$tmp/found")" = 6 ]
ok the_fits_are_made $?
while read -r name status; do
	ok "$name" "$status"
done <"$tmp/found"
[ "$(grep -c '</script>' "$tmp/page")" = 2 ] && grep -q 'pages.growth' "$tmp/page"
ok the_page_has_its_data_and_is_whole $?
finished
