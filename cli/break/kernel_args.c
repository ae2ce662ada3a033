/* SPDX-License-Identifier: MIT */
/* kernel_args.c - see kernel_args.h. */
#include "cli/break/kernel_args.h"

#include "base/syscall_args.h"
#include "cli/launch/process_name.h"
#include "cli/observe/hit_memory.h"
#include "report/finding/death.h"
#include "report/json_text.h"
#include "report/lang/signature.h"
#include "report/lang/value.h"
#include "report/run/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define NAME_BYTES 32
#define TEXT_BYTES 64
#define ERRORS_MAX 4095 /* a result above -4096 is an error */
#define CORE_BIT 0x80

struct kernel_arg {
	char kind;
	char name[NAME_BYTES];
	uint64_t value;
};

/* The next word of the table; false: the arguments end. */
static bool next_arg(const char **at, int index, const struct trapline_hit *hit,
		     struct kernel_arg *out)
{
	const char *word = *at;
	size_t len = word ? strcspn(word, " ") : 0;

	if (!len || *word == '=' || index >= SYSCALL_ARGS_MAX)
		return false;
	out->kind = *word;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)len - 2, word + 2);
	out->value = 0;
	if (hit)
		trapline_hit_register(hit, (unsigned int)signature_argument_register(index),
				      &out->value);
	*at = word + len + (word[len] == ' ');
	return true;
}

uint32_t kernel_args_texts(int64_t number)
{
	const char *at = syscall_args(number);
	struct kernel_arg arg;
	uint32_t bits = 0;

	for (int i = 0; next_arg(&at, i, NULL, &arg); i++)
		if (arg.kind == 'p')
			bits |= 1u << signature_argument_register(i);
	return bits;
}

struct flag {
	uint64_t bit;
	const char *name;
};

static void flags_text(uint64_t value, const struct flag *flags, size_t count, const char *zero,
		       char *buf, size_t n)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < count && used < n; i++) {
		if (!flags[i].bit || (value & flags[i].bit) != flags[i].bit)
			continue;
		used += (size_t)snprintf(buf + used, n - used, "%s%s", used ? "|" : "",
					 flags[i].name);
		value &= ~flags[i].bit;
	}
	if (!used && !value)
		snprintf(buf, n, "%s", zero);
	else if (value && used < n)
		snprintf(buf + used, n - used, "%s0x%" PRIx64, used ? "|" : "", value);
}

#define FLAG(name)          \
	{                   \
		name, #name \
	}

static void open_flags_text(uint64_t value, char *buf, size_t n)
{
	/* O_SYNC contains O_DSYNC, and O_TMPFILE contains O_DIRECTORY: the larger one first. */
	static const struct flag flags[] = {
		FLAG(O_CREAT),	   FLAG(O_EXCL),     FLAG(O_TRUNC),
		FLAG(O_APPEND),	   FLAG(O_NONBLOCK), FLAG(O_SYNC),
		FLAG(O_DSYNC),	   FLAG(O_TMPFILE),  FLAG(O_DIRECT),
		FLAG(O_DIRECTORY), FLAG(O_NOFOLLOW), FLAG(O_CLOEXEC),
		FLAG(O_PATH),	   FLAG(O_NOATIME),  { 0100000, "O_LARGEFILE" },
		FLAG(O_NOCTTY),
	};
	static const char *const modes[] = { "O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE" };
	char rest[200];

	value = (uint32_t)value;
	flags_text(value & ~(uint64_t)O_ACCMODE, flags, sizeof(flags) / sizeof(flags[0]), "", rest,
		   sizeof(rest));
	snprintf(buf, n, "%s%s%s", modes[value & O_ACCMODE], rest[0] ? "|" : "", rest);
}

static void protection_text(uint64_t value, char *buf, size_t n)
{
	static const struct flag flags[] = { FLAG(PROT_READ), FLAG(PROT_WRITE), FLAG(PROT_EXEC) };

	flags_text(value, flags, sizeof(flags) / sizeof(flags[0]), "PROT_NONE", buf, n);
}

static void signal_text(uint64_t value, char *buf, size_t n)
{
	if (value && value <= (uint64_t)SIGRTMAX)
		death_signal_name((int)value, buf, n);
	else
		snprintf(buf, n, "%" PRId32, (int32_t)value);
}

/* As the program had it at the hit, or as it is now. False: it cannot be read. */
static bool text_of(struct kernel_values *v, const struct kernel_arg *arg, int index, char *buf,
		    size_t n)
{
	const unsigned int reg = (unsigned int)signature_argument_register(index);
	const char *text;

	if (!trapline_hit_text(v->hit, reg, &text)) {
		snprintf(buf, n, "%s", text);
		return true;
	}
	v->missed |= arg->value != 0;
	if (!v->s || !arg->value)
		return false;
	for (size_t i = 0; i + 1 < n; i++) {
		if (symbols_read(v->s, arg->value + i, &buf[i], 1)) {
			if (!i)
				return false;
			buf[i] = '\0';
		}
		v->later = true;
		if (!buf[i])
			return true;
	}
	buf[n - 1] = '\0';
	return true;
}

static void path_text(struct kernel_values *v, const struct kernel_arg *arg, int index, char *buf,
		      size_t n)
{
	char text[TEXT_BYTES];

	if (!text_of(v, arg, index, text, sizeof(text)))
		snprintf(buf, n, arg->value ? "0x%" PRIx64 : "NULL", arg->value);
	else if (!value_quote(text, strlen(text), sizeof(text), buf, n))
		snprintf(buf, n, "0x%" PRIx64, arg->value);
	else if (strlen(text) == TEXT_BYTES - 1)
		strncat(buf, "...", n - strlen(buf) - 1);
}

static void arg_text(struct kernel_values *v, const struct kernel_arg *arg, int index, char *buf,
		     size_t n)
{
	const int32_t number = (int32_t)arg->value;

	switch (arg->kind) {
	case 'D':
		if (number == AT_FDCWD) {
			snprintf(buf, n, "AT_FDCWD");
			return;
		}
		/* fallthrough */
	case 'd':
	case 'f':
	case 'i':
		snprintf(buf, n, "%" PRId32, number);
		return;
	case 'l':
		snprintf(buf, n, "%" PRId64, (int64_t)arg->value);
		return;
	case 'u':
		snprintf(buf, n, "%" PRIu64, arg->value);
		return;
	case 'o':
		open_flags_text(arg->value, buf, n);
		return;
	case 'r':
		protection_text(arg->value, buf, n);
		return;
	case 'm':
		snprintf(buf, n, "0%" PRIo32, (uint32_t)arg->value);
		return;
	case 's':
		signal_text(arg->value, buf, n);
		return;
	case 'p':
		path_text(v, arg, index, buf, n);
		return;
	default:
		snprintf(buf, n, arg->value ? "0x%" PRIx64 : "0", arg->value);
	}
}

/* The mode has a meaning only where a file is made; a caller leaves anything there. */
static bool is_left_out(const struct kernel_arg *arg, uint64_t flags)
{
	return arg->kind == 'm' && flags != UINT64_MAX &&
	       !(flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)));
}

static size_t append(char *buf, size_t n, size_t used, const char *name, const char *text)
{
	if (used >= n)
		return used;
	return used +
	       (size_t)snprintf(buf + used, n - used, "%s%s=%s", used ? ", " : "", name, text);
}

static void call_text(struct kernel_values *v, char *buf, size_t n)
{
	const char *at = syscall_args(v->hit->syscall);
	struct kernel_arg arg;
	uint64_t flags = UINT64_MAX;
	char text[300];
	size_t used = 0;

	buf[0] = '\0';
	if (!at)
		at = "x.arg0 x.arg1 x.arg2 x.arg3 x.arg4 x.arg5";
	for (int i = 0; next_arg(&at, i, v->hit, &arg); i++) {
		flags = arg.kind == 'o' ? arg.value : flags;
		if (is_left_out(&arg, flags))
			continue;
		arg_text(v, &arg, i, text, sizeof(text));
		used = append(buf, n, used, arg.name, text);
	}
}

static void process_text(uint64_t pid, char *buf, size_t n)
{
	char name[NAME_BYTES];

	process_name((pid_t)pid, name, sizeof(name));
	snprintf(buf, n, "%d%s%s", (int)pid, name[0] ? " " : "", name);
}

static const char *cause_text(uint64_t signal, int32_t code)
{
	if (code > 0 && code != SI_KERNEL)
		return signal == SIGCHLD ? "a child" : signal == SIGPOLL ? "a file" : "a fault";
	switch (code) {
	case SI_USER:
		return "kill";
	case SI_TKILL:
		return "tgkill";
	case SI_QUEUE:
		return "sigqueue";
	case SI_KERNEL:
		return "the kernel";
	case SI_TIMER:
		return "a timer";
	default:
		return "another call";
	}
}

static void status_text(int status, char *buf, size_t n)
{
	char name[NAME_BYTES];

	if (WIFSIGNALED(status)) {
		death_signal_name(WTERMSIG(status), name, sizeof(name));
		snprintf(buf, n, "signal=%s%s", name, status & CORE_BIT ? ", core" : "");
	} else {
		snprintf(buf, n, "status=%d", WEXITSTATUS(status));
	}
}

void kernel_args_text(struct kernel_values *v, char *buf, size_t n)
{
	char text[80];
	size_t used;

	buf[0] = '\0';
	switch (v->what) {
	case TRAPLINE_AT_SYSCALL:
	case TRAPLINE_AT_DESCRIPTOR:
		call_text(v, buf, n);
		return;
	case TRAPLINE_AT_SIGNAL:
		process_text(v->hit->new_value, text, sizeof(text));
		used = append(buf, n, 0, "to", text);
		append(buf, n, used, "by", cause_text(v->hit->address, (int32_t)v->hit->old_value));
		return;
	case TRAPLINE_AT_FORK:
		snprintf(buf, n, "child=%d", (int)v->hit->new_value);
		return;
	case TRAPLINE_AT_EXIT:
		status_text((int)v->hit->new_value, buf, n);
		return;
	case TRAPLINE_AT_OOM:
		process_text(v->hit->new_value, text, sizeof(text));
		append(buf, n, 0, "victim", text);
		return;
	default:
		return;
	}
}

static json_t *arg_json(struct kernel_values *v, const struct kernel_arg *arg, int index)
{
	char text[TEXT_BYTES];

	if (arg->kind == 'x')
		return run_json_hex(arg->value);
	if (arg->kind == 'p') {
		json_t *j = json_object();

		json_object_set_new(j, "pointer", run_json_hex(arg->value));
		if (text_of(v, arg, index, text, sizeof(text)))
			json_object_set_new(j, "string", run_json_text(text));
		return j;
	}
	if (arg->kind == 'l' || arg->kind == 'u')
		return json_integer((json_int_t)arg->value);
	return json_integer((int32_t)arg->value);
}

static json_t *call_json(struct kernel_values *v)
{
	const char *at = syscall_args(v->hit->syscall);
	json_t *j = json_object();
	struct kernel_arg arg;
	uint64_t flags = UINT64_MAX;

	if (!at)
		at = "x.arg0 x.arg1 x.arg2 x.arg3 x.arg4 x.arg5";
	for (int i = 0; next_arg(&at, i, v->hit, &arg); i++) {
		flags = arg.kind == 'o' ? arg.value : flags;
		if (!is_left_out(&arg, flags))
			json_object_set_new(j, arg.name, arg_json(v, &arg, i));
	}
	return j;
}

json_t *kernel_args_json(struct kernel_values *v)
{
	const int64_t value = (int64_t)v->hit->new_value;
	json_t *j;

	if (v->what <= TRAPLINE_AT_DESCRIPTOR)
		return call_json(v);
	j = json_object();
	if (v->what == TRAPLINE_AT_SIGNAL) {
		json_object_set_new(j, "to", json_integer(value));
		json_object_set_new(j, "code", json_integer((int32_t)v->hit->old_value));
	} else if (v->what == TRAPLINE_AT_EXIT && WIFSIGNALED((int)value)) {
		json_object_set_new(j, "signal", json_integer(WTERMSIG((int)value)));
	} else if (v->what == TRAPLINE_AT_EXIT) {
		json_object_set_new(j, "status", json_integer(WEXITSTATUS((int)value)));
	} else {
		json_object_set_new(j, v->what == TRAPLINE_AT_FORK ? "child" : "victim",
				    json_integer(value));
	}
	return j;
}

void kernel_result_text(int64_t number, uint64_t value, char *buf, size_t n)
{
	const int64_t result = (int64_t)value;
	const char *args = syscall_args(number);
	const char *name = result < 0 && result >= -ERRORS_MAX ? strerrorname_np((int)-result) :
								 NULL;
	const bool is_address = args && strstr(args, "=x");

	if (name)
		snprintf(buf, n, "-%s", name);
	else if (is_address)
		snprintf(buf, n, "0x%" PRIx64, value);
	else
		snprintf(buf, n, "%" PRId64, result);
}
