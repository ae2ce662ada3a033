/* SPDX-License-Identifier: MIT */
/*
 * race_grade.c - what symbols, sources and the code beside an access add to the grade of a race.
 *
 * record/race_judge.h has the grades. Signs of intent are here: a loop that waits for the value, a
 * fence beside it, a type or a source line that states atomic.
 */
#include "report/race/race_report.h"

#include "code/insn/insn.h"
#include "record/race_judge.h"
#include "report/code/source.h"
#include "report/files/files.h"
#include "report/race/race_grade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOP_INSNS_MAX 24
#define CHOOSER_BYTES 512u

int race_decode_at(const struct race_side *side, size_t at, struct insn *out)
{
	if (at >= side->code_bytes)
		return -1;
	return insn_decode(side->code + at, side->code_bytes - at, out);
}

static bool is_frame_operand(const struct insn_memory *m)
{
	return m->base == INSN_SP || m->base == INSN_RBP;
}

/* A waiting loop, from its head to the branch back. */
struct loop {
	size_t head; /* in code[] */
	size_t end;
	uint64_t frame_writes[8]; /* displacements */
	unsigned int write_count;
	bool has_other_effect;
};

static void note_writes(const struct insn *insn, struct loop *loop)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];

		if (!(m->access & INSN_WRITE))
			continue;
		if (!is_frame_operand(m) || loop->write_count == 8)
			loop->has_other_effect = true;
		else
			loop->frame_writes[loop->write_count++] = (uint64_t)m->displacement;
	}
}

/* Finds the head and end of the loop around the access; false: there is none nearby. */
static bool find_loop(const struct race_side *side, struct loop *loop)
{
	size_t at = side->code_before;
	struct insn insn;

	for (int n = 0; n < LOOP_INSNS_MAX && !race_decode_at(side, at, &insn); n++) {
		bool is_jump = insn.kind == INSN_JUMP || insn.kind == INSN_JUMP_CONDITIONAL;
		int64_t target = (int64_t)at + insn.target;

		if (is_jump && target <= (int64_t)side->code_before) {
			if (target < 0)
				return false;
			loop->head = (size_t)target;
			loop->end = at;
			return true;
		}
		if (insn.kind != INSN_OTHER && insn.kind != INSN_NOP && insn.kind != INSN_FENCE &&
		    insn.kind != INSN_JUMP_CONDITIONAL)
			return false;
		at += insn.length;
	}
	return false;
}

/* Gives the same in each round: a load from a frame slot that the loop does not write. */
static bool is_same_each_round(const struct insn *insn, const struct loop *loop)
{
	if (insn->flags & INSN_PC_RELATIVE)
		return true;
	if (insn->memory_count != 1 || insn->memory[0].access != INSN_READ ||
	    !is_frame_operand(&insn->memory[0]))
		return false;
	for (unsigned int i = 0; i < loop->write_count; i++)
		if (loop->frame_writes[i] == (uint64_t)insn->memory[0].displacement)
			return false;
	return true;
}

/* A called function may leave other values in these registers each time. */
static uint64_t writes_of(const struct insn *insn)
{
	static const uint64_t by_calls = 1ull << INSN_RAX | 1ull << INSN_RCX | 1ull << INSN_RDX |
					 1ull << INSN_RSI | 1ull << INSN_RDI | 1ull << INSN_R8 |
					 1ull << INSN_R9 | 1ull << INSN_R10 | 1ull << INSN_R11;

	return insn->writes |
	       (insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT ? by_calls : 0);
}

/* Does the register have the same value at the access in each round of the loop? */
static bool is_fixed(const struct race_side *side, const struct loop *loop, uint64_t reg)
{
	bool is_set = false;
	bool is_same = false;
	struct insn insn;

	for (size_t at = loop->head; at < side->code_before; at += insn.length) {
		if (race_decode_at(side, at, &insn))
			return false;
		if (writes_of(&insn) & reg) {
			is_set = true;
			is_same = is_same_each_round(&insn, loop);
		}
	}
	if (is_set)
		return is_same;
	for (size_t at = side->code_before; at < loop->end; at += insn.length)
		if (race_decode_at(side, at, &insn) || insn.writes & reg)
			return false;
	return true;
}

/*
 * The registers and frame slots that depend on the value that was read, as far as the
 * loop shows.
 */
struct follows {
	uint64_t regs;
	uint64_t slots[8]; /* displacements in the frame */
	unsigned int slot_count;
	bool flags;
};

static bool reads_what_follows(const struct insn *insn, const struct follows *f)
{
	if (insn->reads & f->regs)
		return true;
	for (unsigned int i = 0; i < insn->memory_count; i++)
		for (unsigned int k = 0; k < f->slot_count; k++)
			if (insn->memory[i].access & INSN_READ &&
			    is_frame_operand(&insn->memory[i]) &&
			    (uint64_t)insn->memory[i].displacement == f->slots[k])
				return true;
	return false;
}

/* mov, lea and their like leave the flags alone. */
static bool is_move(const uint8_t *code, const struct insn *insn)
{
	uint8_t opcode = code[insn->opcode_at + insn->opcode_bytes - 1];

	if (insn->opcode_bytes == 1)
		return (opcode >= 0x88 && opcode <= 0x8d) || opcode == 0x63 ||
		       opcode >> 3 == 0xb0 >> 3 || opcode >> 3 == 0xb8 >> 3 || opcode == 0xc6 ||
		       opcode == 0xc7;
	return opcode == 0xb6 || opcode == 0xb7 || opcode == 0xbe || opcode == 0xbf;
}

/* setcc, cmov, adc, sbb. */
static bool reads_flags(const uint8_t *code, const struct insn *insn)
{
	uint8_t opcode = code[insn->opcode_at + insn->opcode_bytes - 1];

	if (insn->opcode_bytes == 1)
		return (opcode & ~0x0b) == 0x10 && insn->kind == INSN_OTHER;
	return insn->opcode_bytes == 2 && (opcode >> 4 == 4 || opcode >> 4 == 9);
}

static void grade_follow(const uint8_t *code, const struct insn *insn, struct follows *f)
{
	bool is_call = insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT;
	bool reads = reads_what_follows(insn, f) || (f->flags && reads_flags(code, insn));

	if (is_call && (f->regs || f->slot_count)) {
		f->regs |= 1ull << INSN_RAX; /* the function may have got it as an argument */
		return;
	}
	if (insn->kind == INSN_OTHER && !is_move(code, insn) && !reads_flags(code, insn))
		f->flags = reads;
	if (!reads)
		return;
	f->regs |= insn->writes;
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].access & INSN_WRITE && is_frame_operand(&insn->memory[i]) &&
		    f->slot_count < 8)
			f->slots[f->slot_count++] = (uint64_t)insn->memory[i].displacement;
}

/*
 * Does a jump in the loop depend on the value? A loop that only adds up what it reads
 * does not wait for it.
 */
static bool decides(const struct race_side *side, const struct loop *loop,
		    const struct insn *access)
{
	struct follows f = { .regs = access->writes };
	size_t at = (size_t)side->code_before + access->length;
	struct insn insn;

	f.flags = !is_move(side->code + side->code_before, access);
	/* Once to the end, and from the head on once more. */
	for (int n = 0; n < 2 * LOOP_INSNS_MAX; n++) {
		if (race_decode_at(side, at, &insn))
			return true;
		if (insn.kind == INSN_JUMP_CONDITIONAL && (f.flags || insn.reads & f.regs))
			return true;
		grade_follow(side->code + at, &insn, &f);
		at += insn.length;
		if (at > loop->end)
			at = loop->head;
		if (at == side->code_before)
			return false;
	}
	return true;
}

/*
 * A loop that reads the same address again and again and does nothing else: it waits for another
 * thread, and a compiler would have read a plain variable once.
 */
static bool is_waiting_loop(const struct race_side *side)
{
	struct loop loop = { .write_count = 0 };
	bool passed_access = false;
	struct insn access;
	struct insn insn;

	if (side->access != RACE_READ || !(side->flags & RACE_DECODED) ||
	    race_decode_at(side, side->code_before, &access) || !find_loop(side, &loop))
		return false;
	for (size_t at = loop.head; at < loop.end; at += insn.length) {
		if (race_decode_at(side, at, &insn))
			return false;
		passed_access |= at == side->code_before;
		note_writes(&insn, &loop);
	}
	if (!passed_access || loop.has_other_effect || !decides(side, &loop, &access))
		return false;
	for (unsigned int i = 0; i < access.memory_count; i++) {
		const struct insn_memory *m = &access.memory[i];

		if (m->base < INSN_RIP && !is_fixed(side, &loop, 1ull << m->base))
			return false;
		if (m->index < INSN_RIP && !is_fixed(side, &loop, 1ull << m->index))
			return false;
	}
	return true;
}

/* A pause instruction shows the intent to wait. */
static bool pauses_in_loop(const struct race_side *side)
{
	struct loop loop;
	struct insn insn;

	if (!find_loop(side, &loop))
		return false;
	for (size_t at = loop.head; at < loop.end; at += insn.length) {
		if (race_decode_at(side, at, &insn))
			return false;
		if (insn.length == 2 && side->code[at] == 0xf3 && side->code[at + 1] == 0x90)
			return true;
	}
	return false;
}

/* A store that a fence follows: how a sequentially consistent one is made. */
static bool has_fence(const struct race_side *side)
{
	struct insn insn;

	if (!(side->access & RACE_WRITE) || !(side->flags & RACE_DECODED) ||
	    race_decode_at(side, (size_t)side->code_before + side->length, &insn))
		return false;
	if (insn.kind == INSN_FENCE)
		return true;
	return insn.flags & INSN_ATOMIC && insn.memory_count && insn.memory[0].base == INSN_SP;
}

enum source_says race_source_says(struct race_report *r, const struct race_access_place *a)
{
	struct files_scope scope;
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);

	if (!s)
		return SOURCE_UNKNOWN;
	files_scope(s, address - a->after, &scope);
	return scope.is_atomic ? SOURCE_ATOMIC : source_says(s, address - a->after, a->place.line);
}

/* Inside a lock, a queue, a guard: what looks like a race there is how it works. */
static bool race_is_locking(struct race_report *r, const struct race_access_place *a)
{
	struct files_scope scope;
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);

	if (!s)
		return false;
	if (a->place.function && files_is_locking(a->place.function))
		return true;
	files_scope(s, address - a->after, &scope);
	return scope.is_locking;
}

/*
 * std::cout and the like: the standard lets threads share them, and libraries use plain
 * stores for them.
 */
static bool is_standard_stream(const struct race_view *v)
{
	static const char *const names[] = {
		"_ZSt3cin",	   "_ZSt4cout",	       "_ZSt4cerr",	   "_ZSt4clog",
		"_ZSt4wcin",	   "_ZSt5wcout",       "_ZSt5wcerr",	   "_ZSt5wclog",
		"_ZNSt3__13cinE",  "_ZNSt3__14coutE",  "_ZNSt3__14cerrE",  "_ZNSt3__14clogE",
		"_ZNSt3__14wcinE", "_ZNSt3__15wcoutE", "_ZNSt3__15wcerrE", "_ZNSt3__15wclogE",
		"std::cin",	   "std::cout",	       "std::cerr",	   "std::clog",
		"std::wcin",	   "std::wcout",       "std::wcerr",	   "std::wclog",
		"std::__1::cin",   "std::__1::cout",   "std::__1::cerr",   "std::__1::clog",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (!strncmp(v->variable, names[i], n) && strchr("+@", v->variable[n]))
			return true;
	}
	return false;
}

/* Decided by the statement, and by the declarations of the names in it. */
static bool is_surely_plain(struct race_report *r, const struct race_access_place *a)
{
	char name[128];
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);
	size_t n;

	if (!s || race_source_says(r, a) != SOURCE_PLAIN)
		return false;
	char *statement = source_statement(s, address - a->after, a->place.line);
	bool is_plain = statement && !source_may_hide_access(statement);
	for (const char *c = statement; is_plain && (c = source_next_name(c, &n)); c += n) {
		snprintf(name, sizeof(name), "%.*s", (int)n, c);
		is_plain = !files_is_atomic_name(s, address - a->after, name);
	}
	free(statement);
	return is_plain;
}

/*
 * A side that waits is a sign of intent, unless the source shows that nothing was done about it. A
 * flag that is polled is the race that most beginners write.
 */
static bool is_meant_to_wait(struct race_report *r, const struct race_view *v)
{
	const struct race_side *a = &v->record.first;
	const struct race_side *b = &v->record.second;

	if (!is_waiting_loop(a) && !is_waiting_loop(b))
		return false;
	return pauses_in_loop(a) || pauses_in_loop(b) || !is_surely_plain(r, &v->first) ||
	       !is_surely_plain(r, &v->second);
}

/*
 * clang merges an atomic load and store into one add. That does not excuse a volatile ++.
 */
static bool grade_names_atomic(struct race_report *r, const struct race_access_place *a)
{
	struct files_scope scope;
	uint64_t address;
	struct symbols *s = race_symbols(r, a->at, &address);

	if (!s)
		return false;
	files_scope(s, address - a->after, &scope);
	char *statement = source_statement(s, address - a->after, a->place.line);
	bool is = scope.is_atomic || (statement && strcasestr(statement, "atomic"));
	free(statement);
	return is;
}

/* Where the function that ip is in begins, by symbols; a part that is apart has one of its own. */
static bool find_beginning(struct race_report *r, const struct race_access_place *a, uint64_t ip,
			   uint64_t *beginning)
{
	struct place place;

	race_place(r, a->at, a->after, &place);
	*beginning = ip - place.offset;
	return place.symbol && !strchr(place.symbol, '.');
}

/*
 * The function that a pointer led to puts another one there: the first caller's choice for all of
 * them, as libraries do that have a function for each processor. Its store is within it, near its
 * beginning. A third thread may have made it lead there in between.
 */
static bool replaces_itself(struct race_report *r, const struct race_view *v)
{
	const struct race_record *record = &v->record;
	const struct race_side *sides[] = { &record->first, &record->second };
	const struct race_access_place *places[] = { &v->first, &v->second };
	uint64_t old = record->old_value;
	uint64_t start;

	for (size_t i = 0; i < 2; i++) {
		uint64_t ip = sides[i]->ip;

		if (sides[i]->access != RACE_WRITE || sides[i]->size != sizeof(uint64_t) ||
		    (i && !(record->flags & RACE_CHANGED)))
			continue;
		if (find_beginning(r, places[i], ip, &start) ?
			    start == old || start == record->new_value :
			    old < ip && ip - old < CHOOSER_BYTES)
			return true;
	}
	return false;
}

enum files_meant race_meant_by_place(struct race_report *r, const struct race_record *record)
{
	uint64_t address;
	struct symbols *s = race_symbols(r, record->place, &address);

	return s ? files_meant_by_variable(s, address) : FILES_PLAIN;
}

/*
 * volatile is a sign of intent unless an update is lost: an update in two steps has no
 * other sign.
 */
static bool is_declared_atomic(struct race_report *r, const struct race_record *record)
{
	enum files_meant meant = race_meant_by_place(r, record);

	return meant == FILES_ATOMIC || (meant == FILES_VOLATILE && !race_loses_update(record));
}

/* What is graded. */
struct graded {
	struct race_report *report;
	const struct race_view *view;
};

static bool are_both(const struct graded *g, enum source_says what)
{
	return race_source_says(g->report, &g->view->first) == what &&
	       race_source_says(g->report, &g->view->second) == what;
}

static const char *library_of(void *arg)
{
	const struct graded *g = arg;
	const struct race_view *v = g->view;

	return race_is_locking(g->report, &v->first) || race_is_locking(g->report, &v->second) ?
		       "code of a synchronization library" :
		       NULL;
}

static const char *intent_of(void *arg)
{
	const struct graded *g = arg;
	const struct race_record *record = &g->view->record;

	if (is_meant_to_wait(g->report, g->view))
		return "one side waits for it in a loop";
	if (has_fence(&record->first) || has_fence(&record->second))
		return "a fence follows the store";
	if (is_declared_atomic(g->report, record))
		return "it is declared atomic or volatile";
	if (replaces_itself(g->report, g->view))
		return "a function that was called through the pointer replaces it";
	if (is_standard_stream(g->view))
		return "a standard stream, which threads may share";
	const char *library = library_of(arg);
	if (library)
		return library;
	if (are_both(g, SOURCE_ATOMIC))
		return "the source marks both sides as atomic";
	/* Between processes there is little else but atomics and the file's own locks. */
	if (record->memory == RACE_MEMORY_SHARED && !are_both(g, SOURCE_PLAIN))
		return "memory shared with other processes";
	return NULL;
}

static const char *update_intent_of(void *arg)
{
	const struct graded *g = arg;

	return grade_names_atomic(g->report, &g->view->first) &&
			       grade_names_atomic(g->report, &g->view->second) ?
		       "the source marks both sides as atomic" :
		       NULL;
}

static const char *store_excuse_of(void *arg)
{
	const struct graded *g = arg;

	return race_store_excuse(g->report, g->view);
}

static int loses_update(void *arg)
{
	const struct graded *g = arg;

	return race_loses_update(&g->view->record);
}

bool race_stores_constant(const struct race_side *side)
{
	struct insn insn;

	return !(side->flags & RACE_DECODED) || race_decode_at(side, side->code_before, &insn) ||
	       insn.immediate_bytes;
}

/* A destructor begins with that, and mostly the pointer is the same (Itanium C++ ABI, 2.6). */
static bool sets_virtual_functions(const struct race_view *v, const struct race_side *stores)
{
	const struct race_access_place *a = stores == &v->record.first ? &v->first : &v->second;

	return stores->access == RACE_WRITE && stores->size == sizeof(uint64_t) &&
	       strstr(a->function, "::~");
}

/*
 * A flag that many set is so, and few call that a mistake; a value that was computed may be another
 * one the next time. Without the source a mov may be an atomic store too: then the doubt is too
 * much.
 */
static int is_habit(void *arg, const struct race_side *stores)
{
	const struct graded *g = arg;

	return race_stores_constant(stores) || sets_virtual_functions(g->view, stores) ||
	       !are_both(g, SOURCE_PLAIN);
}

void race_grade(struct race_report *r, struct race_view *v)
{
	static const struct race_evidence evidence = {
		.intent = intent_of,
		.update_intent = update_intent_of,
		.library = library_of,
		.store_excuse = store_excuse_of,
		.is_habit = is_habit,
		.loses_update = loses_update,
	};
	struct graded graded = { r, v };
	struct race_judgement judgement = race_judge(&v->record, &evidence, &graded);

	v->grade = judgement.grade;
	v->why = judgement.why;
}
