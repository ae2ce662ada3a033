/* SPDX-License-Identifier: MIT */
/*
 * suppress_known.c - races that the authors of a library know, and mark in its source so that
 * ThreadSanitizer is silent. In a binary nothing is left of that.
 */
#include "report/suppress/suppress.h"

#include <string.h>

static const char known[] =
	/*
	 * SQLite, wal.c, SQLITE_NO_TSAN: the header of the WAL's index is read twice and compared.
	 * Only the caller has a name where the library is stripped.
	 */
	"race:^walIndexTryHdr$\n"
	"race:^sqlite3WalBeginReadTransaction$\n";

int suppressions_add_known(struct suppressions *s)
{
	char error[64];

	return suppressions_parse(s, SUPPRESSIONS_KNOWN, known, error, sizeof(error));
}

bool suppression_is_reported(const struct suppression *s)
{
	return s->matches || strcmp(s->file, SUPPRESSIONS_KNOWN) != 0;
}
