#!/bin/sh
# SPDX-License-Identifier: MIT
# test_spelled.sh TRAPLINE VICTIMS SOURCES - names of functions as each language spells them, and as people
# shorten them. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154,SC2034 # trapline, victims and tmp are of there
. "$(dirname "$0")/tap.sh"

sources=$3
command='break'
need_uprobes
need jq gcc

begin()
{
	program=$1
	"$tmp/$program" >"$tmp/$program.out" &
	pid=$!
	started="$started $pid"
	eventually runs "$pid" "$program"
	eventually test -s "$tmp/$program.out"
}

# means NAME LOCATION FUNCTION...: these functions of the program, and no other.
means()
{
	question=$1
	location=$2
	shift 2
	printf '%s\n' "$@" | sort >"$tmp/expected"
	watch -p "$pid" --list "$location" --json
	jq -r --arg program "$program" 'select(.type == "site" and .module == $program) | .name' \
		"$tmp/out" | sort >"$tmp/names"
	cmp -s "$tmp/expected" "$tmp/names"
	ok "$program: $question" $?
}

not_there()
{
	watch -p "$pid" --list "$2"
	[ $? = 2 ] && grep -Eq "no function (is named|matches) " "$tmp/err"
	ok "$program: $1" $?
}

go_names()
{
	map=$1 # those of stripped programs are "...", and of newer releases of Go are whole
	means a_method_by_its_name 'main.(*Acc).Add' 'main.(*Acc).Add'
	means a_pattern_reaches_methods_of_pointers '*Acc*' 'main.(*Acc).Add' 'main.(*BigAcc).Add'
	means a_pattern_with_a_pointer_in_it 'main.(*Acc).*' 'main.(*Acc).Add'
	means the_package_may_be_left_out '(*Acc).Add' 'main.(*Acc).Add'
	means the_pointer_may_be_left_out 'main.Acc.Add' 'main.(*Acc).Add'
	means both_may_be_left_out 'Acc.Add' 'main.(*Acc).Add'
	means a_method_of_a_value 'Value.Next' main.Value.Next
	means arguments_of_types_may_be_left_out main.Map "main.Map[$map]"
	means arguments_of_types_as_the_runtime_has_them '(*Box[...]).Set' "main.(*Box[$map]).Set"
	means the_path_of_a_package_may_be_left_out 'debug.SetTraceback' runtime/debug.SetTraceback
	not_there a_part_of_a_type_is_another_type 'main.(*cc).Add'
	not_there a_package_is_no_function main
	not_there a_pattern_of_a_package_is_no_method 'Acc*'
	watch -p "$pid" 'main.(*Acc).Add' --ret --limit 5 --json
	[ $? = 0 ] && hits 'length == 5 and all(.function == "main.(*Acc).Add" and .duration_ns > 0)'
	ok "$program: returns_are_seen" $?
}

rust_names()
{
	means a_function_in_modules er::work ring::deep::er::work
	means a_method_without_the_arguments_of_its_type Ring::push 'ring::Ring<u64>::push'
	means a_method_with_them 'Ring<u64>::push' 'ring::Ring<u64>::push'
	means a_method_of_a_type Sq::area '<ring::Sq as ring::Shape>::area'
	means a_method_of_a_trait Shape::area '<ring::Sq as ring::Shape>::area' \
		'<ring::Disc as ring::Shape>::area'
	means a_method_of_both '<Disc as Shape>::area' '<ring::Disc as ring::Shape>::area'
	means arguments_of_a_function_may_be_left_out apply 'ring::apply<ring::main::{closure#0}>'
	means the_arrow_of_a_type_closes_nothing call_once \
		'<fn() as core::ops::function::FnOnce<()>>::call_once'
	means a_symbol_of_c_stays _Really _Really
	means a_name_that_refers_to_itself_stays _RNvB_4work _RNvB_4work
	not_there another_type_has_no_such_method Squ::area
	not_there another_trait_has_no_such_method '<Sq as Form>::area'
}

gcc -O1 -g -o "$tmp/spelled" "$sources/spelled.c" 2>"$tmp/err"
begin spelled
rust_names
watch -p "$pid" er::work --limit 2 --stack
[ $? = 0 ] && grep -q '#0  ring::deep::er::work' "$tmp/out"
ok "spelled: frames_have_readable_names" $?
command=watch
watch -p "$pid" touched --limit 2 --stack
[ $? = 0 ] && grep -q '#0  touch (.*) inlined' "$tmp/out" && grep -q '#1  inner\.0+' "$tmp/out"
ok "spelled: a_function_in_a_function_has_its_inlined_frames" $?
command='break'
kill "$pid"

if command -v rustc >/dev/null; then
	rustc -O -g -o "$tmp/spelled_rs" "$sources/spelled.rs" 2>"$tmp/err"
	begin spelled_rs
	command=watch
	watch -p "$pid" TOTAL --limit 2 --stack
	[ $? = 0 ] && grep -q '#0 .*write_volatile' "$tmp/out" &&
		grep -q '#.  spelled::Sum::add (spelled.rs:[0-9]*) inlined' "$tmp/out" &&
		grep -q '#.  spelled::main+' "$tmp/out"
	ok "rust: a_function_in_a_namespace_has_its_inlined_frames" $?
	command='break'
	kill "$pid"
else
	skip 'rust: all' 'rustc is not installed'
fi

if command -v go >/dev/null; then
	(cd "$tmp" && export HOME="$tmp" GOFLAGS=-mod=mod && go build -o go "$sources/spelled.go" &&
		go build -ldflags '-s -w' -o go_stripped "$sources/spelled.go") 2>"$tmp/err"
	begin go
	go_names "$(go tool nm "$tmp/go" | sed -n 's/.*main\.Map\[\(.*\)\]$/\1/p')"
	hits 'all(.ret | type == "number")'
	ok 'go: results_are_known' $?
	kill "$pid"
	begin go_stripped
	go_names "$(grep -ao 'main\.Map\[[^]]*\]' "$tmp/go_stripped" | sed -n '1s/main\.Map\[\(.*\)\]$/\1/p')"
	hits 'all(.ret | type != "number")'
	ok 'go_stripped: results_are_not_guessed' $?
	exactly a_name_that_is_not_there_gets_near_names \
		"no function is named 'main.(*Acc).Ad' in go_stripped; did you mean main.(*Acc).Add?" \
		-p "$pid" 'main.(*Acc).Ad' --list
	kill "$pid"
else
	skip 'go: all' 'go is not installed'
fi

if command -v gdc >/dev/null; then
	gdc -g -O0 -o "$tmp/spelled_d" "$sources/spelled.d" 2>"$tmp/err"
	begin spelled_d
	means a_method_by_its_whole_name spelled.Conn.push spelled.Conn.push spelled.Conn.push
	means the_module_may_be_left_out Conn.push spelled.Conn.push spelled.Conn.push
	means a_pattern '*.push*' spelled.Conn.push spelled.Conn.push spelled.Stack.pushed
	means a_method_of_a_template Buf.put 'spelled.Buf!(int).put'
	means a_method_of_one_of_its_types 'spelled.Buf!(int).put' 'spelled.Buf!(int).put'
	means a_function_of_a_template spelled.twice 'spelled.twice!(int)' 'spelled.twice!(long)'
	means a_function_in_another spelled.main.inner spelled.main.inner
	means a_symbol _D7spelled4Conn4openFAyaDFiZiZi spelled.Conn.open
	not_there a_part_of_a_type_is_another_type onn.push
	not_there another_module_has_no_such_method other.Conn.push
	not_there a_method_of_another_type 'Buf!(long).put'
	exactly 'spelled_d: a_name_that_is_not_there_gets_near_names' \
		"no function is named 'spelled.Conn.opn' in spelled_d; did you mean spelled.Conn.open?" \
		-p "$pid" spelled.Conn.opn --list
	watch -p "$pid" spelled.Conn.push --stack --limit 1
	[ $? = 0 ] && grep -q '#0  spelled.Conn.push (spelled.d:' "$tmp/out"
	ok 'spelled_d: frames_have_readable_names' $?
	kill "$pid"
else
	skip 'D: all' 'gdc is not installed'
fi

if command -v gnatmake >/dev/null; then
	cat >"$tmp/in_c.c" <<'END'
int sum;
__attribute__((noinline)) void ring__in_c(int n) { sum += n; }
__attribute__((noinline)) void ring__other(int n) { sum -= n; }
END
	ada=$(cd "$sources/spelled_ada" && pwd)
	(cd "$tmp" && gcc -g -O0 -c in_c.c && mkdir ada && cd ada &&
		gnatmake -q -g -O0 -I"$ada" -o ../spelled_ada \
			spelled_ada.adb -largs ../in_c.o) >"$tmp/err" 2>&1
	begin spelled_ada
	means a_procedure_as_the_source_has_it Ring.Push ring.push ring.push
	means small_letters ring.push ring.push ring.push
	means the_package_may_be_left_out Push ring.push ring.push
	means a_package_in_another Inner.Deep ring.inner.deep
	means a_function_in_another ring.count_all.nested ring.count_all.nested
	means an_operator 'ring."+"' 'ring."+"'
	means the_main_procedure Spelled_Ada spelled_ada
	means a_symbol ring__count_all ring.count_all
	means a_name_of_c_stays ring__in_c ring__in_c
	not_there a_name_of_c_has_no_dots ring.in_c
	not_there another_package_has_no_such_procedure rin.push
	watch -p "$pid" ring.push --stack --limit 1
	[ $? = 0 ] && grep -q '#0  ring.push (ring.adb:' "$tmp/out" && grep -q '#1  spelled_ada' "$tmp/out"
	ok 'spelled_ada: frames_have_readable_names' $?
	kill "$pid"
else
	skip 'Ada: all' 'gnatmake is not installed'
fi

# What a library of C++ puts between, and arguments of templates that have values of their own.
cat >"$tmp/cxx.cc" <<'END'
#include <unistd.h>
#include <string>
#include <utility>
namespace app {
template <class T, int N = 4> struct Ring {
	T slots[N];
	unsigned head = 0;
	void __attribute__((noinline)) push(T v) { slots[head++ % N] = v; }
};
}
app::Ring<int> one;
app::Ring<int, 5> two;
app::Ring<std::pair<int, long>, 8> three;
template <class T> __attribute__((noinline)) void take(const T &s) { one.head += sizeof(s); asm volatile("" ::: "memory"); }
int main()
{
	if (write(1, "ready\n", 6) != 6)
		return 1;
	for (int i = 0;; i++) {
		one.push(i);
		two.push(i);
		three.push({ i, i });
		take(std::string());
		usleep(5000);
	}
}
END
cxx_names()
{
	means all_instances Ring::push 'app::Ring<int, 4>::push' 'app::Ring<int, 5>::push' "app::Ring<std::$1pair<int, long>, 8>::push"
	means arguments_that_have_values_may_be_left_out 'app::Ring<int>::push' 'app::Ring<int, 4>::push' 'app::Ring<int, 5>::push'
	means with_them 'Ring<int,5>::push' 'app::Ring<int, 5>::push'
	means without_an_inner_namespace 'Ring<std::pair<int,long>,8>::push' "app::Ring<std::$1pair<int, long>, 8>::push"
	not_there another_argument 'Ring<long>::push'
	not_there a_part_of_an_argument 'Ring<in>::push'
	not_there another_namespace 'Ring<pair<int,long>,8>::push'
}
for way in 'g++' 'clang++ -stdlib=libc++ -fuse-ld=lld'; do
	# shellcheck disable=SC2086 # options
	if $way -O1 -g -o "$tmp/cxx" "$tmp/cxx.cc" 2>"$tmp/err"; then
		begin cxx
		case $way in g*) cxx_names '' ;; *) cxx_names __1:: ;; esac
		kill "$pid"
	else
		skip "$way: all" "$way does not make a program here"
	fi
done

# A name may refer to itself, or to what is not there: it stays. In a program of C two underscores are two.
cat >"$tmp/hostile.c" <<'END'
#include <unistd.h>
#define NAMED(name, text) __attribute__((noinline)) void name(void) __asm__(text); void name(void) { getppid(); }
NAMED(itself, "_D3appQaQbQcQdFZv")
NAMED(longer, "_D3appTQbZQzzzzzzzzFZv")
NAMED(twice, "_D3app__T1aTQdTQfTQhTQjTQlTQnTQpZFZv")
NAMED(cut, "_D99999999999999999999app")
NAMED(plain, "ring__push")
int main(void)
{
	write(1, "ready\n", 6);
	for (;;) {
		itself();
		longer();
		twice();
		cut();
		plain();
		usleep(5000);
	}
}
END
gcc -O0 -o "$tmp/hostile" "$tmp/hostile.c"
begin hostile
watch -p "$pid" --list '*' --json
[ $? = 0 ] && jq -e -s 'map(select(.type == "site").name) | index("_D3appQaQbQcQdFZv") != null and
	index("_D99999999999999999999app") != null and index("ring__push") != null' "$tmp/out" >"$tmp/jq"
ok 'hostile: names_that_are_no_names_stay' $?
not_there two_underscores_of_c_are_no_dot ring.push
kill "$pid"
finished
