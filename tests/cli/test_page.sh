#!/bin/sh
# SPDX-License-Identifier: MIT
# test_page.sh TRAPLINE VICTIMS GENERATOR - the pages of `trapline report --as html` in a browser: their layout in four
# sizes, light and dark, what filters and the search do, and pictures against page/reference.txt. TAP.
# The recordings are always the same, so they need no right to observe.
#
# TRAPLINE_PAGE_WRITE=1 meson test -C build page   writes page/reference.txt anew: look at the pictures then.
# TRAPLINE_PAGE_KEEP=DIR keeps pages and pictures.
#
# The picture of a page depends on fonts, so only average colours of a coarse grid are compared, with room.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline and tmp come from there
. "$(dirname "$0")/tap.sh"
generator=$3
here=$(cd "$(dirname "$0")/page" && pwd)
reference=$here/reference.txt
browser=$(command -v chromium || command -v google-chrome) || skip_all "chromium is not installed"
need jq base64
export TZ=UTC LC_ALL=C.UTF-8
sizes="375x800 768x1024 1280x800 1920x1080"
tall=1600 # of each picture
cells=216 # numbers for one: 6 x 12 cells of 3 colours

# browse SCHEME ARG...: what a headless browser prints.
browse()
{
	dark=
	[ "$1" = light ] || dark=--force-dark-mode
	shift
	timeout -k 5 240 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars $dark \
		--allow-file-access-from-files --disable-site-isolation-trials --log-level=3 \
		--user-data-dir="$tmp/browser" "$@" 2>"$tmp/err"
}

# page NAME ARG...: $tmp/NAME.html from a recording of the generator, or from the JSON lines of NAME.
page()
{
	name=$1
	shift
	if [ -e "$here/$name.jsonl" ]; then
		mkdir -p "$tmp/bin" "$tmp/src"
		seq 99 | sed 's/.*/	line(&); \/* of <b>the<\/b> source *\//' >"$tmp/src/race_racy.c"
		sed "s|@TMP@|$tmp|g" "$here/$name.jsonl" >"$tmp/$name.rec"
	else
		"$generator" "$@" "$tmp/$name.rec" || return
	fi
	"$trapline" report "$tmp/$name.rec" --as html -o "$tmp/$name.html"
}

# frames HEIGHT PAGE...: a row for each page, with a frame of each size. HEIGHT 0: of its own.
frames()
{
	of=$1
	shift
	echo '<!DOCTYPE html><body style="margin:0"><pre id="facts" style="display:none"></pre>'
	for page; do
		echo '<div style="display:flex;align-items:flex-start">'
		for size in $sizes; do
			height=$of
			[ "$of" != 0 ] || height=${size#*x}
			echo "<iframe src='$page' style='border:0;flex:none;width:${size%x*}px;height:${height}px'></iframe>"
		done
		echo '</div>'
	done
}

# facts NAME...: of these pages, a line of JSON for each size in $tmp/facts.
facts()
{
	for name; do
		{
			sed '/^<\/body>$/,$d' "$tmp/$name.html"
			echo "<script>const page_name = '$name';"
			cat "$here/facts.js"
			echo '</script></body></html>'
		} >"$tmp/facts_$name.html"
	done
	# shellcheck disable=SC2046 # a list of names
	frames 0 $(printf 'facts_%s.html#hit=1200\n' "$@") >"$tmp/frames.html"
	browse light --window-size=4400,4000 --dump-dom "file://$tmp/frames.html" >"$tmp/dom"
	sed -n 's/^.*FACTS {/{/p' "$tmp/dom" | sed 's/&gt;/>/g; s/&lt;/</g; s/&amp;/\&/g; s/<\/pre>.*//' >"$tmp/facts"
	cut -c1-1000 "$tmp/facts" >"$tmp/out"
	[ "$(wc -l <"$tmp/facts")" = $(($# * $(echo "$sizes" | wc -w))) ]
}

# all NAME EXPRESSION: true of the facts of this page in each size.
all()
{
	jq -e -s --arg page "$1" --argjson sizes "$(echo "$sizes" | wc -w)" \
		"map(select(.page == \$page)) | length == \$sizes and all(.[]; $2)" "$tmp/facts" >/dev/null 2>>"$tmp/err"
}

page values values 3000 && page calls calls 3000 && page race && page heap
ok "pages_are_made" $?
! cat "$tmp/values.html" "$tmp/calls.html" "$tmp/race.html" "$tmp/heap.html" | grep -Eq '(src|href)=|https?://|@import|url\('
ok "no_page_asks_for_anything" $?

# refused NAME TEXT ARG...: one line, status 2.
refused()
{
	name=$1
	text=$2
	shift 2
	"$trapline" report "$@" >"$tmp/out" 2>"$tmp/err"
	[ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "$text" "$tmp/err"
	ok "$name" $?
}
refused races_have_the_form_of_a_page_only 'JSON lines, not a recording: give --as html' "$tmp/race.rec"
echo '{"type":"hit","old":1}' >"$tmp/watch.jsonl"
refused json_lines_of_a_watch_are_refused 'neither a recording nor JSON lines of trapline race or heap' "$tmp/watch.jsonl" --as html
{
	head -1 "$tmp/race.rec"
	echo '{"type":"race","grade":"A","first":{"stack":[1]}}'
	tail -2 "$tmp/race.rec"
} >"$tmp/damaged"
"$trapline" report "$tmp/damaged" --as html >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && grep -q 'damaged in line 2: only what is before it is shown' "$tmp/err" && grep -q '"total":1,' "$tmp/out" && : >"$tmp/out"
ok "a_damaged_line_ends_the_races_and_is_reported" $?
{
	head -1 "$tmp/heap.rec"
	head -1 "$tmp/race.rec"
} >"$tmp/damaged"
"$trapline" report "$tmp/damaged" --as html >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && grep -q 'damaged in line 2' "$tmp/err" && grep -q '"kind":"heap",.*"total":1,' "$tmp/out"
ok "a_page_is_of_one_search" $?
# A name of a target is no way to put a file into the page that is not source.
echo secret >"$tmp/src/secret"
sed 's|race_racy\.c|secret|g; s/"line":[0-9][0-9]*/"line":1/g' "$tmp/race.rec" >"$tmp/lured"
"$trapline" report "$tmp/lured" --as html >"$tmp/out" 2>"$tmp/err"
[ $? = 0 ] && grep -q '"sources":{}' "$tmp/out"
ok "a_file_that_is_not_named_as_source_is_not_on_the_page" $?

facts values calls race heap
ok "the_pages_work_in_four_sizes" $?
all values '.errors == [] and .wide == [] and .wide_at_end == [] and .overflow <= 0'
ok "nothing_is_wider_than_the_page" $?
all values '.covered == 0 and .rows > 5 and .clock and (.limit | not)'
ok "no_text_of_a_row_covers_another" $?
all values '.lanes == 3 and .strips == 4 and .histograms == 3'
ok "each_variable_has_a_lane_and_a_histogram_and_each_thread_a_strip" $?
all values '.marked == "in sight" and .hit == "#1200" and .frames == 3'
ok "a_link_to_a_hit_scrolls_to_its_row_and_marks_it" $?
all values '.shown == "3,000 hits" and .by_place == "2,100 of 3,000 hits" and .lanes_of_place == 1'
ok "a_click_on_a_variable_shows_its_hits_alone" $?
all values '(.by_thread | test("^3[0-9][0-9] of 3,000 hits$")) and (.by_thread_and_search == "0 of 3,000 hits" or
	.by_thread_and_search == .by_thread)'
ok "a_click_on_a_thread_and_the_search_go_together" $?
all values '.by_nothing == "0 of 3,000 hits" and .rows_of_nothing == 0 and .again == "3,000 hits"'
ok "a_search_without_a_result_shows_nothing_and_all_comes_back" $?
all values '.by_bar | test("^[1-9][0-9,]* of 3,000 hits$")'
ok "a_click_on_a_bar_shows_its_hits" $?
all values '.rows_at_end < 60 and .last == 3000 and .last_is_seen'
ok "the_list_has_all_hits_and_only_elements_in_sight" $?
all values '.colors == [3, 4, 3]'
ok "the_colour_is_by_variable_thread_or_code" $?

all calls '.errors == [] and .wide == [] and .overflow <= 0 and .covered == 0 and .lanes == 3 and .histograms == 3 and
	.by_place == "1,800 of 3,000 hits" and .marked == "in sight" and .colors == [3, 4, 1]'
ok "a_page_of_calls_has_a_lane_for_each_function" $?

all race '.errors == [] and .wide == [] and .overflow <= 0 and .races == 2 and .sides == 4 and .frames > 8'
ok "a_page_of_races_has_both_sides_with_stacks" $?
all race '.sources == 4 and (.marked_lines | all(test("line\\([15]3\\); /\\* of <b>the</b> source")))'
ok "the_line_of_the_access_is_marked_in_its_source" $?
all race '.by_grade == 1 and .by_search == 1 and .again == 2'
ok "races_are_selected_by_grade_and_by_text" $?

all heap '.errors == [] and .wide == [] and .overflow <= 0 and .races == 2 and .sides == 5 and .sources == 5 and .frames > 8'
ok "a_page_of_the_heap_has_access_allocation_and_release" $?
all heap '.by_grade == 2 and .by_search == 0 and .again == 2'
ok "errors_are_selected_by_grade_and_by_text" $?

# 200,000 hits are the limit, and the page says so.
four=$sizes
sizes=1280x800
page big values 200100 && facts big
ok "a_page_of_very_many_hits_is_made" $?
all big '.limit and .shown == "200,000 hits" and .rows < 60 and .last == 200000 and .last_is_seen and .marked == "in sight"'
ok "a_page_has_200000_hits_at_most_and_says_so" $?
[ "$(wc -c <"$tmp/big.html")" -lt 12000000 ]
ok "200000_hits_need_less_than_12_megabytes" $?

sizes=$four

# --- pictures ---
frames $tall values.html calls.html race.html heap.html >"$tmp/frames.html"
{
	echo '<!DOCTYPE html><pre id="grid"></pre><script>const pictures = [];'
	for scheme in light dark; do
		browse $scheme --window-size=4400,$((4 * tall + 200)) --screenshot="$tmp/$scheme.png" \
			"file://$tmp/frames.html" >/dev/null
		echo "pictures.push(['$scheme', ['values', 'calls', 'race', 'heap'],"
		echo "	[[0, 375], [375, 768], [1143, 1280], [2423, 1920]], $tall, \`"
		base64 -w 0 "$tmp/$scheme.png"
		echo '`]);'
	done
	cat "$here/grid.js"
	echo '</script>'
} >"$tmp/grid.html"
browse light --virtual-time-budget=2000 --dump-dom "file://$tmp/grid.html" >"$tmp/dom"
sed -n 's/^.*<pre id="grid">//; /^[a-z]*-[a-z]* [0-9]/p' "$tmp/dom" >"$tmp/grid"
[ -z "${TRAPLINE_PAGE_KEEP:-}" ] || cp "$tmp"/*.html "$tmp"/*.png "$tmp/grid" "$tmp/dom" "$TRAPLINE_PAGE_KEEP"
[ -z "${TRAPLINE_PAGE_WRITE:-}" ] || cp "$tmp/grid" "$reference"

# alike NAME OTHER: each picture of NAME beside that of OTHER in the reference: no cell is far off, and few are off.
alike()
{
	awk -v name="$1" -v other="$2" -v cells=$cells '
	function far(a, b) { return a > b ? a - b : b - a }
	NR == FNR { if ($1 == other) wanted[$2] = $0; next }
	$1 == name {
		n = split(wanted[$2], w, " ")
		sum = most = 0
		for (i = 3; i <= NF; i++) {
			d = far($i, w[i])
			sum += d
			most = d > most ? d : most
		}
		mean = sum / cells
		printf "# %s %s: %.1f on average, %d at most\n", $1, $2, mean, most
		bad += n != NF || NF != cells + 2 || mean > 6 || most > 70
		seen++
	}
	END { exit bad || seen != 4 }' "$reference" "$tmp/grid"
}
for name in values calls race heap; do
	for scheme in light dark; do
		alike $name-$scheme $name-$scheme
		ok "picture_of_${name}_$scheme" $?
	done
done
! alike values-light values-dark >/dev/null
ok "a_dark_picture_is_not_a_light_one" $?
! alike values-light race-light >/dev/null
ok "a_picture_of_races_is_none_of_values" $?
finished
