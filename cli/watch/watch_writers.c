/* SPDX-License-Identifier: MIT */
/*
 * watch_writers.c - see watch_writers.h.
 *
 * The condition of a watch is about what a store has left. A probe is before the store, so what it
 * will leave becomes an expression of registers and of the bytes as they are: see
 * report/code/store.h. What no expression has is refused, since a writer that is left out would be
 * a hit that is not seen. The probes are those of `trapline break`, which runs as a child.
 */
#include "cli/watch/watch_writers.h"

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/session.h"
#include "cli/watch/watch_expr.h"
#include "report/code/store.h"
#include "report/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS_MAX 16
#define LEARN_NS UINT64_C(1000000000)
#define TURN_NS UINT64_C(50000000)
#define TURN_HITS 400 /* about 4 ms of a turn, a twelfth of it */
#define TEXT_MAX 4097
#define ARGUMENTS_MAX 64
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

struct writer {
	uint64_t ip; /* after the store */
	uint64_t hits;
	struct code_store store;
};

struct writers {
	const struct observe_settings *set;
	struct symbols *symbols;
	struct watch_expr expr;
	struct writer writer[WRITERS_MAX];
	size_t count;
	uint64_t hits;
	bool are_more;
	uint64_t learn_ns;
};

static enum trapline_action learn_hit(const struct trapline_hit *hit)
{
	struct writers *w = hit->arg;
	size_t i = 0;

	w->hits++;
	while (i < w->count && w->writer[i].ip != hit->ip)
		i++;
	if (i == WRITERS_MAX) {
		w->are_more = true;
		return TRAPLINE_GO_ON;
	}
	w->count += i == w->count;
	w->writer[i].ip = hit->ip;
	w->writer[i].hits++;
	return TRAPLINE_GO_ON;
}

/*
 * For a second or as long as the run, in turns of so many hits: a busy writer does not hide a rare
 * one.
 */
static int learn(struct writers *w)
{
	const struct session session = { .name = w->set->name, .pid = w->set->pid };
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *target;
	uint64_t start = clock_now_ns();
	uint64_t permitted = TURN_HITS;

	int err = trapline_open(w->set->pid, NULL, &target);
	if (err)
		return session_explain(&session, "watch", w->set->expr, err);
	opts.limit = TURN_HITS;
	opts.arg = w;
	err = trapline_watch(target, w->expr.address, w->expr.len, w->expr.access, &opts, &event);
	for (uint64_t turn = start; err >= 0 && clock_now_ns() - start < w->learn_ns;) {
		err = trapline_poll(target, 5, learn_hit);
		if (err < 0 || clock_now_ns() - turn < TURN_NS)
			continue;
		turn = clock_now_ns();
		if (w->hits < permitted)
			continue;
		trapline_event_rearm(event, TURN_HITS);
		permitted = w->hits + TURN_HITS;
	}
	int status = err < 0 ? session_explain(&session, "watch", w->set->expr, err) : 0;
	trapline_close(target);
	return status;
}

/* What the bytes contain, as the type has it, and what they will contain. */
static void value_text(const struct writers *w, const char *bytes, char *out, size_t n)
{
	const struct type *t = w->expr.view.type;
	bool is_signed = t && type_is_number(t) && t->is_signed && t->size == w->expr.len;

	snprintf(out, n, "(%c%zu)(%s)", is_signed ? 's' : 'u', w->expr.len * 8, bytes);
}

struct text {
	char *at;
	char *end;
};

static void append(struct text *t, const char *from, size_t n)
{
	if (n > (size_t)(t->end - t->at))
		n = (size_t)(t->end - t->at);
	memcpy(t->at, from, n);
	t->at += n;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/*
 * A name at the store: those of the watch are known by the store, and constants of the type are
 * numbers.
 */
static bool replace(const struct writers *w, const struct code_store *store, const char *name,
		    struct text *out)
{
	char before[80];
	char old[120];
	char new[CODE_STORE_TEXT + 20];
	char text[2 * CODE_STORE_TEXT + 200];
	const struct type *t = w->expr.view.type;
	int64_t constant;

	snprintf(before, sizeof(before), "*(u%zu *)%#" PRIx64 "u", w->expr.len * 8,
		 w->expr.address);
	value_text(w, before, old, sizeof(old));
	value_text(w, store->value, new, sizeof(new));
	if (!strcmp(name, "new"))
		snprintf(text, sizeof(text), "(%s)", new);
	else if (!strcmp(name, "old"))
		snprintf(text, sizeof(text), "(%s)", old);
	else if (!strcmp(name, "changed"))
		snprintf(text, sizeof(text), "(%s != %s)", new, old);
	else if (!strcmp(name, "addr"))
		snprintf(text, sizeof(text), "%#" PRIx64 "u", w->expr.address);
	else if (!strcmp(name, "ip") || !strcmp(name, "rip"))
		snprintf(text, sizeof(text), "%#" PRIx64 "u", store->address + store->length);
	else if (t && t->kind == TYPE_ENUM && !type_find_constant(w->symbols, t, name, &constant))
		snprintf(text, sizeof(text), "(%" PRId64 ")", constant);
	else
		return false;
	append(out, text, strlen(text));
	return true;
}

/* A member or a part of a scope is not a name of its own. */
static bool is_part(const char *start, const char *at)
{
	while (at > start && at[-1] == ' ')
		at--;
	if (at == start)
		return false;
	char second = at - 1 > start ? at[-2] : '\0';
	return at[-1] == '.' || (at[-1] == ':' && second == ':') ||
	       (at[-1] == '>' && second == '-');
}

static void translate(const struct writers *w, const struct code_store *store, struct text *out)
{
	const char *from = w->set->condition;
	char name[64];

	for (const char *p = from; *p;) {
		size_t n = 1;

		if (*p == '"' || *p == '\'') {
			while (p[n] && p[n] != *p)
				n += p[n] == '\\' && p[n + 1] ? 2 : 1;
			n += p[n] != '\0';
		} else if (is_word(*p)) {
			while (is_word(p[n]))
				n++;
		}
		snprintf(name, sizeof(name), "%.*s", (int)n, p);
		if (!is_word(*p) || n >= sizeof(name) || is_part(from, p) ||
		    (p[n] == ':' && p[n + 1] == ':') || !replace(w, store, name, out))
			append(out, p, n);
		p += n;
	}
}

/* `(ip == A && reaches && (condition)) || ...`. */
static int write_condition(const struct writers *w, char *buf, size_t n)
{
	struct text out = { .at = buf, .end = buf + n - 1 };
	char text[CODE_STORE_TEXT + 60];

	for (size_t i = 0; i < w->count; i++) {
		const struct code_store *store = &w->writer[i].store;

		snprintf(text, sizeof(text), "%s(ip == %#" PRIx64 "u%s%s", i ? " || " : "",
			 store->address, *store->reaches ? " && " : "", store->reaches);
		append(&out, text, strlen(text));
		if (w->set->condition) {
			append(&out, " && (", 5);
			translate(w, store, &out);
			append(&out, ")", 1);
		}
		append(&out, ")", 1);
	}
	*out.at = '\0';
	return out.at == out.end ? cli_wrong(w->set->name,
					     "--if is too long for %zu writers: shorten it, or "
					     "leave out --at-writers",
					     w->count) :
				   0;
}

static int find_stores(struct writers *w)
{
	char before[80];
	char where[300];
	const char *why;

	snprintf(before, sizeof(before), "*(u%zu *)%#" PRIx64 "u", w->expr.len * 8,
		 w->expr.address);
	for (size_t i = 0; i < w->count; i++) {
		struct writer *writer = &w->writer[i];
		struct place place;

		if (!code_store_find(w->symbols, writer->ip, w->expr.address, w->expr.len, before,
				     &writer->store, &why))
			continue;
		symbols_place(w->symbols, writer->ip, &place);
		run_place_text_with_line(&place, writer->ip, where, sizeof(where));
		return cli_wrong(w->set->name,
				 "cannot use --at-writers: there is no probe for the store before "
				 "%s: %s; leave out --at-writers",
				 where, why);
	}
	return 0;
}

/* The busiest first, on the line that states what is known. */
static int by_hits(const void *a, const void *b)
{
	const struct writer *x = a;
	const struct writer *y = b;

	return x->hits != y->hits ? (x->hits < y->hits ? 1 : -1) : 0;
}

static void tell(const struct writers *w)
{
	char text[1000] = "";
	char where[300];

	for (size_t i = 0; i < w->count && i < 4; i++) {
		const struct writer *writer = &w->writer[i];
		size_t used = strlen(text);
		struct place place;

		symbols_place(w->symbols, writer->store.address, &place);
		run_place_text_with_line(&place, writer->store.address, where, sizeof(where));
		snprintf(text + used, sizeof(text) - used, "%s%s (%.1f%%)", i ? ", " : "", where,
			 100.0 * (double)writer->hits / (double)w->hits);
	}
	cli_note(w->set->name,
		 "writers known so far: %zu, from %" PRIu64
		 " writes in %.1f s: %s%s; from now on other stores are not seen",
		 w->count, w->hits, (double)w->learn_ns / 1e9, text, w->count > 4 ? ", ..." : "");
}

struct arguments {
	char *arg[ARGUMENTS_MAX + 1];
	size_t count;
};

/* --NAME=VALUE; value NULL: --NAME. */
static void add_argument(struct arguments *a, const char *name, const char *value)
{
	char *text = NULL;

	if (a->count == ARGUMENTS_MAX || asprintf(&text, value ? "%s%s" : "%s", name, value) < 0)
		return;
	a->arg[a->count++] = text;
}

static void add_number(struct arguments *a, const char *name, uint64_t value, const char *unit)
{
	char text[40];

	snprintf(text, sizeof(text), "%" PRIu64 "%s", value, unit);
	add_argument(a, name, text);
}

static void pass_options(const struct observe_settings *set, struct arguments *a)
{
	if (set->for_ns)
		add_number(a, "--for=", (set->for_ns + 999999) / 1000000, "ms");
	if (set->limit)
		add_number(a, "--limit=", set->limit, "");
	if (set->last)
		add_number(a, "--last=", set->last, "");
	if (set->top)
		add_number(a, "--top=", set->top, "");
	if (set->frames)
		add_number(a, "--frames=", set->frames, "");
	if (!set->lines_per_second)
		add_number(a, "--max-rate=", set->max_rate, "");
	if (set->budget <= 0)
		add_argument(a, "--budget=none", NULL);
	else
		add_number(a, "--budget=", (uint64_t)(set->budget + 0.5), "%");
	if (set->output)
		add_argument(a, "--output=", set->output);
	if (set->by)
		add_argument(a, "--by=", set->by);
	if (set->stack)
		add_argument(a, "--stack", NULL);
	if (set->json)
		add_argument(a, "--json", NULL);
	if (set->summary)
		add_argument(a, "--summary", NULL);
	if (set->verbose)
		add_argument(a, "--verbose", NULL);
}

/*
 * `tick+0x13` where that is the address and no other, which names each line and row; else the
 * number.
 */
static void location_text(const struct writers *w, uint64_t address, char *buf, size_t n)
{
	struct place place;
	struct variable found;

	symbols_place(w->symbols, address, &place);
	const char *name = place.symbol;
	bool is_plain = name && !name[strspn(name, PLAIN)] && strlen(name) + 24 < n;
	if (is_plain && !symbols_find(w->symbols, name, &found) && found.is_function &&
	    found.address + place.offset == address)
		snprintf(buf, n, "%s+%#" PRIx64, name, place.offset);
	else
		snprintf(buf, n, "%#" PRIx64, address);
}

static void arguments_of(const struct writers *w, const char *condition, struct arguments *a)
{
	add_argument(a, "trapline", NULL);
	add_argument(a, "break", NULL);
	add_number(a, "--pid=", (uint64_t)w->set->pid, "");
	add_argument(a, "--mechanism=probe", NULL);
	pass_options(w->set, a);
	/* One that is always true rejects nothing, and is left out. */
	if (w->count > 1 || w->set->condition || *w->writer[0].store.reaches)
		add_argument(a, "--if=", condition);
	for (size_t i = 0; i < w->count; i++) {
		char at[CODE_STORE_TEXT];

		location_text(w, w->writer[i].store.address, at, sizeof(at));
		add_argument(a, at, NULL);
	}
}

static volatile sig_atomic_t child;

/* What comes from a terminal, the child has got too. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code != SI_KERNEL)
		kill(child, sig);
}

static void start_child(struct arguments *a, pid_t parent, const sigset_t *mask)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (getppid() == parent)
		execv("/proc/self/exe", a->arg);
	_exit(127);
}

/* A terminal sends its signals to the child too; it ends with this command, however that ends. */
static int run_child(struct arguments *a)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction passing = { .sa_sigaction = pass_on,
					   .sa_flags = SA_SIGINFO | SA_RESTART };
	pid_t parent = getpid();
	int status = 0;
	sigset_t ours;
	sigset_t mask;

	/* One that comes between is for the child. */
	sigemptyset(&ours);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&ours, signals[i]);
	sigprocmask(SIG_BLOCK, &ours, &mask);
	fflush(NULL);
	child = fork();
	if (child < 0)
		return cli_wrong("watch", "cannot start the probes: %s", strerror(errno));
	if (!child)
		start_child(a, parent, &mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &passing, NULL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return cli_status_of(status);
}

static int observe_stores(const struct writers *w)
{
	char condition[TEXT_MAX];
	struct arguments a = { .count = 0 };
	int status = write_condition(w, condition, sizeof(condition));

	if (status)
		return status;
	tell(w);
	arguments_of(w, condition, &a);
	status = run_child(&a);
	while (a.count)
		free(a.arg[--a.count]);
	if (!w->set->json && status != CLI_USAGE)
		printf("writers known so far: %zu; a store by other code was not seen\n", w->count);
	return status;
}

/* The first option that cannot be used with it; NULL: there is none. */
static const char *option_against(const struct observe_settings *set)
{
	return set->from      ? "--from" :
	       set->threads   ? "--threads" :
	       set->slice_ns  ? "--multiplex" :
	       set->kernel    ? "--kernel" :
	       set->thread    ? "--thread" :
	       set->on	      ? "--on" :
	       set->no_bpf    ? "--no-bpf" :
	       set->then      ? "--then" :
	       set->until_hit ? "--until-hit" :
	       set->explain   ? "--explain" :
	       set->list      ? "--list" :
				NULL;
}

/* A number of one register, if a store of an integer shows its value. */
static int check_expr(const struct writers *w)
{
	const struct value_view *v = &w->expr.view;
	size_t len = w->expr.len;
	const char *why = NULL;

	if (w->expr.tid)
		why = "the variable is thread-local";
	else if (v->bit_size)
		why = "the variable is a bit-field";
	else if (len != 1 && len != 2 && len != 4 && len != 8)
		why = "the variable has not 1, 2, 4 or 8 bytes";
	else if (w->expr.address % len)
		why = "the variable is not aligned";
	return why ? cli_wrong(w->set->name, "cannot use --at-writers: %s", why) : 0;
}

/* The condition is valid for the watch, and counts no hits: the probes count their own. */
static int check_condition(const struct writers *w)
{
	struct condition_names names = { .symbols = w->symbols,
					 .view = w->expr.view,
					 .len = w->expr.len };
	struct condition_parts parts = { .entry = NULL };
	bool counts_hits = false;
	uint32_t bytes;
	static unsigned char copy[1 << 16];

	int status = cli_condition(w->set->name, w->set->condition, &names, &parts);
	if (!status && parts.entry &&
	    (condition_copy(parts.entry, copy, sizeof(copy), &bytes, &counts_hits) || counts_hits))
		status = cli_wrong(w->set->name,
				   "cannot use --at-writers: --if counts hits, and each writer has "
				   "a probe of its own");
	trapline_condition_free(parts.entry);
	return status;
}

static int find_writers(struct writers *w)
{
	int status = watch_expr_resolve(w->symbols, w->set, &w->expr);

	if (!status)
		status = check_expr(w);
	if (!status)
		status = check_condition(w);
	if (!status)
		status = learn(w);
	if (status)
		return status;
	if (!w->count) {
		cli_wrong(w->set->name,
			  "no thread wrote %s in %.1f s: its writers are not known; leave out "
			  "--at-writers",
			  w->expr.name, (double)w->learn_ns / 1e9);
		return CLI_NO;
	}
	if (w->are_more)
		return cli_wrong(w->set->name,
				 "cannot use --at-writers: more than %d instructions write %s",
				 WRITERS_MAX, w->expr.name);
	qsort(w->writer, w->count, sizeof(w->writer[0]), by_hits);
	return find_stores(w);
}

int watch_writers_run(const struct observe_settings *set)
{
	struct writers w = { .set = set, .learn_ns = LEARN_NS };
	const struct session session = { .name = set->name, .pid = set->pid };
	const char *against = option_against(set);

	if (set->for_ns && set->for_ns < LEARN_NS)
		w.learn_ns = set->for_ns;
	if (against)
		return cli_wrong(set->name, "--at-writers cannot be combined with %s", against);
	if (set->command)
		return cli_wrong(set->name,
				 "--at-writers needs -p PID: a command has no writers yet");
	if (set->operand_count != 1)
		return cli_wrong(set->name, "--at-writers needs one EXPR");
	int status = session_open_symbols(&session, &w.symbols);
	if (!status)
		status = session_check_width(&session, w.symbols, "--at-writers");
	if (!status)
		status = find_writers(&w);
	if (!status)
		status = observe_stores(&w);
	symbols_close(w.symbols);
	return status;
}
