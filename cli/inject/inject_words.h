/* SPDX-License-Identifier: MIT */
/* inject_words.h - why a process cannot take the agent, as a cause and a remedy. */
#ifndef INJECT_WORDS_H
#define INJECT_WORDS_H

#include <stddef.h>

/* It has no memory file: err of memfd_create(2) there, negative. */
void words_of_file(int err, char *out, size_t n);
/* What its loader states of the object, which was opened as path. */
void words_of_loader(const char *text, const char *path, char *out, size_t n);

#endif
