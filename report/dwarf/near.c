/* SPDX-License-Identifier: MIT */
/* near.c - names that resemble a mistyped one. */
#include "report/dwarf/near.h"
#include "report/dwarf/symbols_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN 63

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edit distance in which two swapped neighbours count once. */
static unsigned int distance(const char *a, size_t la, const char *b, size_t lb)
{
	unsigned char rows[3][NAME_MAX_LEN + 1];
	unsigned char *before = rows[0];
	unsigned char *last = rows[1];
	unsigned char *row = rows[2];

	for (size_t j = 0; j <= lb; j++)
		last[j] = (unsigned char)j;
	for (size_t i = 1; i <= la; i++) {
		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned int cost = tolower(a[i - 1]) != tolower(b[j - 1]);
			unsigned int d = min3(last[j] + 1u, row[j - 1] + 1u, last[j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1u < d)
				d = before[j - 2] + 1u;
			row[j] = (unsigned char)d;
		}
		unsigned char *old = before;
		before = last;
		last = row;
		row = old;
	}
	return last[lb];
}

unsigned int near_score(const char *wanted, const char *candidate)
{
	size_t lw = strlen(wanted);
	size_t lc = strlen(candidate);
	unsigned int score = NEAR_NOT;

	if (!lw || lw > NAME_MAX_LEN || lc > NAME_MAX_LEN)
		return NEAR_NOT;
	unsigned int most = lw < 6 ? 2 : (unsigned int)lw / 3;
	if (lw < 4)
		most = 1;
	size_t gap = lw > lc ? lw - lc : lc - lw;
	if (gap <= most) {
		unsigned int d = distance(wanted, lw, candidate, lc);
		if (d <= most)
			score = d;
	}
	if (lw >= 3 && strcasestr(candidate, wanted)) {
		unsigned int d = 1 + (unsigned int)gap / 4;
		if (d < score)
			score = d;
	}
	return score;
}

bool near_add(struct near_list *list, const char *candidate)
{
	unsigned int score = near_score(list->wanted, candidate);
	size_t max = list->max < NEAR_NAMES_MAX ? list->max : NEAR_NAMES_MAX;

	/* The same name does not help: it was not found. */
	if (score == NEAR_NOT || !strcmp(list->wanted, candidate))
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->names[i], candidate))
			return false;
	size_t at = list->count;
	while (at > 0 && list->scores[at - 1] > score)
		at--;
	if (at == max)
		return false;
	size_t move = list->count - at;
	if (list->count == max)
		move--;
	else
		list->count++;
	memmove(&list->names[at + 1], &list->names[at], move * sizeof(*list->names));
	memmove(&list->scores[at + 1], &list->scores[at], move * sizeof(*list->scores));
	list->names[at] = candidate;
	list->scores[at] = score;
	/* Beside a good one a bad one does not help. */
	while (list->scores[list->count - 1] > 2 * list->scores[0] + 1)
		list->count--;
	return at < list->count;
}

void near_question(const struct near_list *list, char *buf, size_t n)
{
	size_t used = 0;

	buf[0] = 0;
	for (size_t i = 0; i < list->count && used < n; i++) {
		int more = snprintf(buf + used, n - used, "%s%s%s", i ? ", " : "; did you mean ",
				    list->names[i], i + 1 == list->count ? "?" : "");
		used += more > 0 ? (size_t)more : 0;
	}
}

static int near_visit(Dwfl_Module *mod, const char *name, const GElf_Sym *sym, uint64_t address,
		      void *arg)
{
	int type = GELF_ST_TYPE(sym->st_info);

	if ((type == STT_OBJECT || type == STT_NOTYPE) && !strchr(name, '@'))
		near_add(arg, name);
	return 0;
}

static size_t near_in(struct symbols *s, const char *module, const char *name, const char **names,
		      size_t n)
{
	const char *colon = strrchr(name, ':');
	struct near_list near = { .wanted = colon ? colon + 1 : name, .names = names, .max = n };

	symbols_walk(s, module, near_visit, &near);
	return near.count;
}

size_t symbols_near(struct symbols *s, const char *name, const char **names, size_t n)
{
	return near_in(s, NULL, name, names, n);
}

size_t symbols_near_own(struct symbols *s, const char *name, const char **names, size_t n)
{
	return near_in(s, symbols_program(s), name, names, n);
}
