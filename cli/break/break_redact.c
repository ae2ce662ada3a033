/* SPDX-License-Identifier: MIT */
/* break_redact.c - see break_redact.h. */
#include "cli/break/break_redact.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WORD_BYTES 128

static bool has(const struct opt_list *names, const char *name)
{
	for (size_t i = 0; name && i < names->count; i++)
		if (!strcmp(names->texts[i], name))
			return true;
	return false;
}

/* `arg0` to `arg5` */
static bool argument_number(const char *text, unsigned int *number)
{
	if (strncmp(text, "arg", 3) != 0 || text[3] < '0' || text[3] > '5' || text[4])
		return false;
	*number = (unsigned int)(text[3] - '0');
	return true;
}

/* Does the value, or a part of it, come in the register of argN? */
static bool is_in_register(const struct signature_value *v, unsigned int number)
{
	int reg = signature_argument_register(number);

	for (size_t i = 0; v->where == SIGNATURE_REGISTERS && i < v->regs; i++)
		if (v->reg[i] == reg)
			return true;
	for (size_t i = 0; v->where == SIGNATURE_PIECES && i < v->piece_count; i++)
		if (v->piece[i].kind == SIGNATURE_PIECE_REGISTER && v->piece[i].reg == reg)
			return true;
	return v->where == SIGNATURE_MEMORY && v->regs && v->reg[0] == reg;
}

bool break_redacts_argument(const struct opt_list *names, const struct signature *signature,
			    size_t index)
{
	char word[32];
	unsigned int number;

	snprintf(word, sizeof(word), "arg%zu", index);
	if (has(names, word))
		return true;
	if (!signature || index >= signature->count)
		return false;
	const struct signature_value *v = &signature->parameter[index];
	if (has(names, v->name))
		return true;
	for (size_t i = 0; i < names->count; i++)
		if (argument_number(names->texts[i], &number) && is_in_register(v, number))
			return true;
	return false;
}

bool break_redacts_result(const struct opt_list *names)
{
	return has(names, "ret");
}

/* A register is that of an argument which is redacted by its name. */
static bool redacts_number(const struct opt_list *names, const struct signature *signature,
			   unsigned int number)
{
	for (size_t i = 0; signature && i < signature->count; i++)
		if ((i == number || is_in_register(&signature->parameter[i], number)) &&
		    break_redacts_argument(names, signature, i))
			return true;
	return false;
}

static bool redacts_word(const struct opt_list *names, const struct signature *signature,
			 const char *word)
{
	unsigned int number;

	if (has(names, word))
		return true;
	for (size_t i = 0; signature && i < signature->count; i++)
		if (signature->parameter[i].name && !strcmp(signature->parameter[i].name, word) &&
		    break_redacts_argument(names, signature, i))
			return true;
	return argument_number(word, &number) && redacts_number(names, signature, number);
}

static bool is_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* The next word, and what is behind it; NULL: the end. */
static const char *next_word(const char *text, char *word)
{
	size_t n = 0;

	while (*text && !is_letter(*text))
		text++;
	while (is_letter(text[n]))
		n++;
	snprintf(word, WORD_BYTES, "%.*s", (int)n, text);
	return n ? text + n : NULL;
}

bool break_redacts_text(const struct opt_list *names, const struct signature *signature,
			const char *text)
{
	char word[WORD_BYTES];

	while (names->count && (text = next_word(text, word)))
		if (redacts_word(names, signature, word))
			return true;
	return false;
}

static bool text_has(const char *text, const char *name)
{
	char word[WORD_BYTES];

	while (text && (text = next_word(text, word)))
		if (!strcmp(word, name))
			return true;
	return false;
}

bool break_redact_is_known(const char *name, const struct signature *signature, bool has_result,
			   const char *print, const char *by)
{
	unsigned int number;

	if (has_result && !strcmp(name, "ret"))
		return true;
	if (argument_number(name, &number) && (!signature || number < signature->count))
		return true;
	for (size_t i = 0; signature && i < signature->count; i++)
		if (signature->parameter[i].name && !strcmp(signature->parameter[i].name, name))
			return true;
	return text_has(print, name) || text_has(by, name);
}
