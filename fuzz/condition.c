/* SPDX-License-Identifier: MIT */
/*
 * condition.c - any bytes as the text of a condition. What is accepted must compile, and must be
 * evaluated within its stack whatever it is told; what is refused must say where.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cond/emit.h"
#include "cond/compile.h"
#include "fuzz.h"

static int find_symbol(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	*address = (uintptr_t)name;
	*bytes = strlen(name);
	return name[0] == 'x' ? -ENOENT : 0;
}

static int next_number(const struct cond_env *env, uint64_t *out)
{
	uint64_t *state = (void *)(uintptr_t)env->arg;

	*state = *state * 6364136223846793005u + 1442695040888963407u;
	*out = *state >> (*state >> 58);
	return *state % 16 ? 0 : -EFAULT;
}

static int env_term(const struct cond_env *env, enum cond_term term, uint64_t *out)
{
	return term < COND_TERM_COUNT ? next_number(env, out) : (abort(), 0);
}

static int env_number(const struct cond_env *env, uint32_t number, uint64_t *out)
{
	return next_number(env, out);
}

static int env_read(const struct cond_env *env, uint64_t address, void *buf, uint32_t n)
{
	memset(buf, (int)address, n);
	return address % 8 ? 0 : -EFAULT;
}

static void env_thread(const struct cond_env *env, char *name)
{
	memset(name, 'a', COND_THREAD_NAME);
}

static void must(int holds)
{
	if (!holds)
		abort();
}

static void compile(const struct condition *c)
{
	static struct ebpf program;
	static const int16_t regs_at[64];
	struct cond_place place = {
		.context = R6, .control = R7, .frame_at = -400, .regs_at = regs_at,
	};

	program.count = 0;
	program.overflow = 0;
	must(cond_emit(&program, c, &place) == 0);
	must(!program.overflow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct condition c;
	struct trapline_condition_opts opts = {.size = sizeof(opts), .find_symbol = find_symbol};
	struct trapline_condition_error error;
	char *text = malloc(size + 1);
	uint64_t state = size;

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	int err = cond_parse(text, &opts, &c, &error);
	if (err) {
		must(err == -EINVAL || err == -E2BIG);
		must(error.line >= 1 && error.column >= 1 && error.message[0]);
	} else {
		struct cond_env env = {env_term, env_number, env_number, env_read, env_thread,
				       &state};

		must(c.count > 0 && c.count <= COND_STEPS_MAX);
		for (int i = 0; i < 8; i++)
			cond_eval(&c, &env);
		compile(&c);
	}
	free(text);
	return 0;
}
