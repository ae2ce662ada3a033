/* SPDX-License-Identifier: MIT */
/* condition.c - public entry points for conditions. */
#include <trapline/condition.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "cond/compile.h"
#include "cond/print.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "event/bpf/program_load.h"

#define LOG_BYTES (1u << 22)

TRAPLINE_API int trapline_condition_parse(const char *text,
					  const struct trapline_condition_opts *opts,
					  struct trapline_condition **out)
{
	struct trapline_condition_opts o;
	struct trapline_condition_error error;

	if (!text || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "text or out is NULL");
	int err = opts_copy(&o, sizeof(o), opts);
	if (err)
		return err;
	struct trapline_condition *condition = malloc(sizeof(*condition));
	if (!condition)
		return -ENOMEM;
	err = cond_parse(text, &o, &condition->ir, &error);
	if (o.error)
		*o.error = error;
	if (err) {
		free(condition);
		return failed(err, FAILED_ARGUMENT, "the condition is wrong");
	}
	*out = condition;
	return 0;
}

TRAPLINE_API void trapline_condition_free(struct trapline_condition *condition)
{
	free(condition);
}

/* As for a watch of 8 bytes whose hits call back. */
static void print_program(FILE *out, struct trapline_event *ev)
{
	struct ebpf *p = calloc(1, sizeof(*p));
	char *log = malloc(LOG_BYTES);
	int err = p && log ? program_emit(p, ev, 0, 0, PROGRAM_SIGNALS) : -ENOMEM;

	if (err) {
		fprintf(out, "no program: %s\n",
			err == -EOPNOTSUPP ? "it counts events that a BPF program cannot count" :
					     "out of memory");
	} else {
		fprintf(out, "eBPF program, %u instructions:\n", p->count);
		ebpf_print(out, p);
		int fd = ebpf_load(p, BPF_PROG_TYPE_PERF_EVENT, log, LOG_BYTES);
		fprintf(out, "verifier: %s%s\n%s", fd < 0 ? "refused: " : "accepted",
			fd < 0 ? strerror(-fd) : "", log);
		if (fd >= 0)
			sys_close(fd);
	}
	free(log);
	free(p);
}

static int print_all(FILE *out, const struct trapline_condition *condition)
{
	struct trapline_event *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return -ENOMEM;
	fprintf(out, "steps:\n");
	cond_print(out, &condition->ir);
	ev->access = TRAPLINE_WRITE;
	ev->part_count = 1;
	ev->parts[0].len = 8;
	ev->condition = &condition->ir;
	int err = program_maps_open(ev);
	if (err)
		fprintf(out,
			"no program: BPF is not permitted here (%s); the interpreter evaluates the condition\n",
			strerror(-err));
	else
		print_program(out, ev);
	program_maps_close(ev);
	free(ev);
	return 0;
}

TRAPLINE_API int trapline_condition_explain(const struct trapline_condition *condition, char *buf,
					    size_t n)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return -ENOMEM;
	int err = print_all(out, condition);
	if (fclose(out))
		err = -ENOMEM;
	if (!err && n) {
		size_t copied = len < n - 1 ? len : n - 1;
		memcpy(buf, text, copied);
		buf[copied] = '\0';
	}
	free(text);
	return err ? err : (int)len;
}
