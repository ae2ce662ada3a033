/* SPDX-License-Identifier: MIT */
/*
 * symbols_moved.c - the symbols of a process whose code other symbols know at other addresses.
 *
 * Processes that run the same files have them at addresses of their own. Names, lines and unwind
 * tables are read once, and an address is moved there. In a copy of a stack each word that is an
 * address of code is.
 */
#include "record/layout.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/target_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool symbols_moved(const struct symbols *s, uint64_t address, uint64_t *to)
{
	for (size_t i = 0; i < s->move_count; i++) {
		const struct symbols_move *m = &s->moves[i];

		if (address < m->start || address >= m->end)
			continue;
		*to = address + m->shift;
		return true;
	}
	return false;
}

static bool is_back(const struct symbols *s, uint64_t moved, uint64_t *address)
{
	for (size_t i = 0; i < s->move_count; i++) {
		const struct symbols_move *m = &s->moves[i];

		if (moved - m->shift < m->start || moved - m->shift >= m->end)
			continue;
		*address = moved - m->shift;
		return true;
	}
	return false;
}

/* What is there in the other symbols alone is not code of this process. */
static uint64_t moved_word(const struct symbols *s, uint64_t word)
{
	uint64_t to;

	if (symbols_moved(s, word, &to))
		return to;
	return is_back(s, word, &to) ? 0 : word;
}

size_t symbols_unwind_moved(struct symbols *s, const uint64_t *regs, size_t reg_count,
			    const unsigned char *stack, size_t stack_len, uint64_t sp,
			    uint64_t *frames, size_t n)
{
	uint64_t moved_regs[RECORD_REGS];
	unsigned char *moved_stack = malloc(stack_len ? stack_len : 1);
	uint64_t word;

	if (!moved_stack || reg_count > RECORD_REGS) {
		free(moved_stack);
		return 0;
	}
	for (size_t i = 0; i < reg_count; i++)
		moved_regs[i] = moved_word(s, regs[i]);
	if (stack_len)
		memcpy(moved_stack, stack, stack_len);
	for (size_t i = -sp % sizeof(word); i + sizeof(word) <= stack_len; i += sizeof(word)) {
		memcpy(&word, moved_stack + i, sizeof(word));
		word = moved_word(s, word);
		memcpy(moved_stack + i, &word, sizeof(word));
	}
	size_t count = symbols_unwind(s->like, moved_regs, reg_count, moved_stack, stack_len, sp,
				      frames, n);
	for (size_t i = 0; i < count; i++)
		is_back(s, frames[i], &frames[i]);
	free(moved_stack);
	return count;
}

static bool is_taken(const struct symbols *s, const struct symbols_move *m)
{
	uint64_t address;

	return is_back(s, m->start + m->shift, &address) ||
	       is_back(s, m->end + m->shift - 1, &address);
}

int symbols_open_moved(struct symbols *like, pid_t pid, const struct symbols_move *moves, size_t n,
		       struct symbols **out)
{
	struct symbols *s;
	int err = symbols_open_empty(&s);

	if (err)
		return err;
	s->moves = calloc(n ? n : 1, sizeof(*moves));
	if (!s->moves) {
		symbols_close(s);
		return -ENOMEM;
	}
	s->like = like;
	s->pid = pid;
	s->root = pid && target_file_is_foreign(pid) ? pid : 0;
	/* If a file is loaded twice, the first copy has the names: there is one way back. */
	for (size_t i = 0; i < n; i++)
		if (!is_taken(s, &moves[i]))
			s->moves[s->move_count++] = moves[i];
	*out = s;
	return 0;
}

int symbols_open_like(struct symbols *like, uint64_t address, uint64_t shift, struct symbols **out)
{
	const struct symbols_move all = { .start = 0, .end = UINT64_MAX, .shift = -shift };
	struct place at;

	symbols_place(like, address - shift, &at);
	if (!at.module)
		return -ENOENT;
	int err = symbols_open_moved(like, 0, &all, 1, out);
	if (!err)
		(*out)->like_module = at.module;
	return err;
}
