/* SPDX-License-Identifier: MIT */
/* search_out.c - see search_out.h. */
#include "cli/search/search_out.h"

#include "cli/message.h"
#include "cli/standard_output.h"
#include "report/safe/private_file.h"
#include "report/safe/stream_fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM_BYTES \
	(1u << 20) /* a report has some KiB; pages that no report needs are never touched */

static ssize_t write_to_error(void *cookie, const char *bytes, size_t n)
{
	return standard_write(STDERR_FILENO, bytes, n);
}

/* stderr itself stays without a buffer: messages and the line of progress leave at once. */
static FILE *open_error(void)
{
	const cookie_io_functions_t functions = { .write = write_to_error };

	return fopencookie(NULL, "w", functions);
}

int search_out_open(struct search_out *o, const char *command, const char *path, bool is_text)
{
	*o = (struct search_out){ .f = stdout, .name = "standard output" };
	if (path) {
		o->f = private_file(path);
		o->name = path;
	} else if (is_text) {
		o->f = open_error();
		o->name = "standard error";
	}
	if (!o->f)
		return cli_wrong(command, "cannot write %s: %s", o->name, strerror(errno));
	o->is_terminal = isatty(is_text && !path ? STDERR_FILENO : stream_fd(o->f));
	o->room = o->f != stdout ? malloc(ROOM_BYTES) : NULL;
	if (o->room)
		setvbuf(o->f, o->room, _IOFBF, ROOM_BYTES);
	return CLI_OK;
}

int search_out_flush(struct search_out *o)
{
	errno = 0;
	if ((fflush(o->f) || ferror(o->f)) && !o->err)
		o->err = errno ? errno : EIO;
	return o->err;
}

void search_out_close(struct search_out *o)
{
	if (o->f && o->f != stdout)
		fclose(o->f);
	free(o->room);
	*o = (struct search_out){ .f = NULL };
}
