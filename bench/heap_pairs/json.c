/* SPDX-License-Identifier: MIT */
/* json.c ROUNDS - parses a text into a tree of blocks and frees it, as small parsers of JSON do. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	struct node *child;
	char *name;
	char *text;
	double number;
};

static struct node *value(const char **at);

static char *string(const char **at)
{
	const char *start = ++*at;

	while (**at != '"')
		++*at;
	size_t n = (size_t)(*at - start);
	char *copy = malloc(n + 1);
	memcpy(copy, start, n);
	copy[n] = '\0';
	++*at;
	return copy;
}

static void space(const char **at)
{
	while (isspace((unsigned char)**at) || **at == ',' || **at == ':')
		++*at;
}

static struct node *members(const char **at, char close, int has_names)
{
	struct node *first = NULL;
	struct node **last = &first;

	for (++*at, space(at); **at != close; space(at)) {
		char *name = has_names ? string(at) : NULL;

		space(at);
		*last = value(at);
		(*last)->name = name;
		last = &(*last)->next;
	}
	++*at;
	return first;
}

static struct node *value(const char **at)
{
	struct node *n = calloc(1, sizeof(*n));

	space(at);
	if (**at == '{')
		n->child = members(at, '}', 1);
	else if (**at == '[')
		n->child = members(at, ']', 0);
	else if (**at == '"')
		n->text = string(at);
	else
		n->number = strtod(*at, (char **)at);
	return n;
}

static void drop(struct node *n)
{
	while (n) {
		struct node *next = n->next;

		drop(n->child);
		free(n->name);
		free(n->text);
		free(n);
		n = next;
	}
}

int main(int argc, char **argv)
{
	static char text[65536];
	size_t used = 1;

	text[0] = '[';
	for (int i = 0; used < sizeof(text) - 200; i++)
		used += (size_t)sprintf(text + used,
					"{\"id\": %d, \"name\": \"item %d\", \"tags\": [\"a\", \"b%d\"], \"size\": [1.5, %d]},",
					i, i, i, i);
	text[used] = ']';
	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); i++) {
		const char *at = text;

		drop(value(&at));
	}
	return 0;
}
