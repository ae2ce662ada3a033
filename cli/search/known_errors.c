/* SPDX-License-Identifier: MIT */
/* known_errors.c - see known_errors.h. */
#include "cli/search/known_errors.h"

#include "cli/message.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add_file(const char *command, struct suppressions *s, const char *path)
{
	char error[PATH_MAX + 400];

	return suppressions_read(s, path, error, sizeof(error)) ? cli_wrong(command, "%s", error) :
								  0;
}

/* TRAPLINE_SUPPRESSIONS: files, with colons between them. */
static int add_environment(const char *command, struct suppressions *s)
{
	const char *list = getenv("TRAPLINE_SUPPRESSIONS");
	char *copy = list ? strdup(list) : NULL;
	char *rest = copy;
	int status = 0;

	if (list && !copy)
		return cli_wrong(command, "out of memory");
	for (char *path; !status && (path = strsep(&rest, ":"));)
		if (*path)
			status = add_file(command, s, path);
	free(copy);
	return status;
}

static int known_suppressions(const char *command, const struct opt_list *files,
			      struct suppressions *s)
{
	int status = add_environment(command, s);

	for (size_t i = 0; i < files->count && !status; i++)
		status = add_file(command, s, files->texts[i]);
	return status;
}

/* Only a folder that can be written takes a new file. */
static int known_folder(const char *command, const char *option, const char *path)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	char *slash = strrchr(folder, '/');
	if (!slash)
		strcpy(folder, ".");
	else
		slash[slash == folder] = '\0';
	if (access(folder, W_OK | X_OK))
		return cli_wrong(command, "cannot write %s (%s): %s", path, option,
				 strerror(errno));
	return 0;
}

static int known_baseline(const char *command, const char *path, int is_written,
			  struct baseline **out)
{
	char error[PATH_MAX + 400];

	if (!path)
		return is_written ? cli_wrong(command, "--write-baseline needs --baseline FILE") :
				    0;
	if (baseline_new(out))
		return cli_wrong(command, "out of memory");
	int err = baseline_read(*out, path, error, sizeof(error));
	if (err && err != -ENOENT)
		return cli_wrong(command, "%s", error);
	return err || is_written ? known_folder(command, "--baseline", path) : 0;
}

int known_open(const char *command, const struct known_settings *set, struct known_errors *out)
{
	*out = (struct known_errors){ .baseline = NULL };
	if (suppressions_new(&out->suppressions) || suppressions_add_known(out->suppressions))
		return cli_wrong(command, "out of memory");
	int status = known_suppressions(command, &set->suppressions, out->suppressions);
	if (!status)
		status =
			known_baseline(command, set->baseline, set->write_baseline, &out->baseline);
	if (!status && set->sarif)
		status = known_folder(command, "--sarif", set->sarif);
	return status;
}

void known_close(struct known_errors *known)
{
	suppressions_free(known->suppressions);
	baseline_free(known->baseline);
}

bool known_is_written(const struct known_settings *set)
{
	return set->baseline && (set->write_baseline || access(set->baseline, F_OK));
}
