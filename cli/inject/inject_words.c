/* SPDX-License-Identifier: MIT */
/* inject_words.c - see inject_words.h. */
#include "cli/inject/inject_words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void words_of_file(int err, char *out, size_t n)
{
	const char *remedy = "";

	if (err == -EMFILE)
		remedy = "; its limit of descriptors is used up: raise it by prlimit --nofile";
	else if (err == -EACCES)
		remedy = "; the kernel or a policy permits no executable file in memory "
			 "(vm.memfd_noexec)";
	else if (err == -ENOMEM)
		remedy = "; its limit of memory, or that of its group, is reached";
	snprintf(out, n, "%s%s", strerror(-err), remedy);
}

void words_of_loader(const char *text, const char *path, char *out, size_t n)
{
	const size_t skipped = strlen(path);
	const char *remedy = "";

	if (!strncmp(text, path, skipped) && !strncmp(text + skipped, ": ", 2))
		text += skipped + 2;
	/*
	 * Two commands that load it at the same moment load it twice, and the room for that is
	 * small.
	 */
	if (strstr(text, "static TLS"))
		remedy = "; try again if another trapline attached";
	else if (strstr(text, "cannot open shared object file"))
		remedy = "; it sees no /proc, perhaps in another root directory: mount proc there";
	else if (strstr(text, "failed to map segment"))
		remedy = "; its limit of address space is reached, or a policy permits no code "
			 "from memory: raise the limit by prlimit --as";
	snprintf(out, n, "%s%s", text, remedy);
}
