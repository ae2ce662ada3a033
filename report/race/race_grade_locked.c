/* SPDX-License-Identifier: MIT */
/* race_grade_locked.c - a plain store beside a locked instruction: does its source excuse it? */
#include "report/race/race_report.h"

#include "code/insn/insn.h"
#include "report/code/source.h"
#include "report/files/files.h"
#include "report/race/race_grade.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Parts of names of hand-made locks. */
static const char *const locking_words[] = {
	"lock",	  "mutex",   "spin",  "sem",  "release", "acquire", "barrier", "latch",
	"ticket", "serving", "owner", "turn", "seq",	 "once",    "guard",   "futex",
};

static bool names_locking(const char *text)
{
	for (size_t i = 0; i < sizeof(locking_words) / sizeof(locking_words[0]); i++)
		if (strcasestr(text, locking_words[i]))
			return true;
	return false;
}

/*
 * xchg, cmpxchg, bts and its like: with these a lock is taken, with lock add and the like it is
 * not.
 */
static bool takes_locks(const struct race_side *side)
{
	struct insn insn;

	if (race_decode_at(side, side->code_before, &insn))
		return true;
	uint8_t opcode = side->code[side->code_before + insn.opcode_at + insn.opcode_bytes - 1];
	if (insn.opcode_bytes == 1)
		return opcode == 0x86 || opcode == 0x87;
	return opcode != 0xc0 && opcode != 0xc1; /* xadd */
}

const char *race_store_excuse(struct race_report *r, const struct race_view *v)
{
	if (race_meant_by_place(r, &v->record) != FILES_PLAIN)
		return "it is declared atomic or volatile";
	uint64_t address;
	struct symbols *s = race_symbols(r, v->first.at, &address);
	struct source_store store;

	if (!s)
		return "a plain store, which may be atomic, beside a locked instruction";
	address -= v->first.after;
	char *statement = source_statement(s, address, v->first.place.line);
	bool is_locking = !statement || names_locking(statement) ||
			  names_locking(v->first.function);
	enum source_says says = race_source_says(r, &v->first);
	source_store_in(statement ? statement : "", &store);
	free(statement);
	if (says != SOURCE_PLAIN || !store.is_assignment)
		return "a plain store, which may be atomic, beside a locked instruction";
	if (is_locking)
		return "the store looks like part of a lock";
	if (files_is_atomic_name(s, address, store.name))
		return "it is declared atomic or volatile";
	if ((store.is_constant || race_stores_constant(&v->record.first)) &&
	    takes_locks(&v->record.second))
		return "the store looks like the release of a lock";
	return NULL;
}
