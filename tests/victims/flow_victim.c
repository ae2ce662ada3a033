/* SPDX-License-Identifier: MIT */
/*
 * flow_victim.c MODE - what `trapline flow` is tested with: bytes that go somewhere, and bytes that do not.
 *
 * The text comes by standard input, 24 bytes and a newline, or by the environment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 24

char kept[64];
void note(int level, const char *line);
char *make(void);
static char text[64];
static void *volatile held;

__attribute__((noinline)) static void take_text(void)
{
	if (!fgets(text, sizeof(text), stdin))
		exit(9);
	text[strcspn(text, "\n")] = '\0';
}

/* A copy of each kind: by libc, by a loop, by a string instruction, through a register. */
__attribute__((noinline)) static void copy_by_loop(char *to, const char *from)
{
	for (; *from; from++, to++) {
		*to = *from;
		__asm__ volatile("" : : : "memory");
	}
	*to = '\0';
}

__attribute__((noinline)) static void copy_by_string(char *to, const char *from, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

__attribute__((noinline)) static void compute(unsigned char *out, const char *from)
{
	unsigned int hash = 5381;

	for (; *from; from++)
		hash = hash * 33 + (unsigned char)*from;
	memcpy(out, &hash, sizeof(hash));
}

__attribute__((noinline)) static void look_up(char *out, const char *from)
{
	static char table[256];

	for (int i = 0; i < 256; i++)
		table[i] = (char)(i ^ 0x20);
	for (; *from; from++)
		*out++ = table[(unsigned char)*from];
}

__attribute__((noinline)) void note(int level, const char *line)
{
	__asm__ volatile("" : : "r"(level), "r"(line) : "memory");
}

__attribute__((noinline)) char *make(void)
{
	char *made = malloc(64);

	snprintf(made, 64, "made-here-%d", (int)strlen(text));
	return made;
}

static void tell(const void *bytes, size_t n)
{
	if (write(2, bytes, n) != (ssize_t)n)
		exit(8);
}

__attribute__((noinline)) static void shell(int is_bad)
{
	char line[128] = "true ";

	take_text();
	if (is_bad)
		strcat(line, text);
	else
		strcat(line, "nothing");
	if (system(line))
		exit(7);
}

static void path(void)
{
	char name[64];

	take_text();
	copy_by_loop(name, text);
	FILE *f = fopen(name, "r");
	if (f)
		fclose(f);
}

static void run_program(void)
{
	take_text();
	execlp("true", "true", text, NULL);
}

/* Natively: no window lasts so long. */
static void become_true(char *const envp[])
{
	char *argv[] = { "true", "nothing", NULL };

	for (volatile int i = 0; i < 1500000; i++)
		;
	execve("/bin/true", argv, envp);
	exit(8);
}

static void exported(void)
{
	/* The loader looks the function up for longer than a window waits. */
	setenv("KEPT", "nothing", 1);
	take_text();
	setenv("KEPT", text, 1);
	become_true(environ);
}

static void not_exported(void)
{
	char *envp[] = { "KEPT=nothing", NULL };

	setenv("KEPT", "nothing", 1);
	take_text();
	setenv("KEPT", text, 1);
	become_true(envp);
}

static void spawned(void)
{
	char *argv[] = { "true", "nothing", NULL };
	char line[64] = "KEPT=";
	char *envp[] = { line, NULL };
	pid_t pid;

	take_text();
	strcat(line, text);
	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, envp))
		exit(8);
	waitpid(pid, NULL, 0);
}

/* As Python starts programs. */
static void forked(void)
{
	char *argv[] = { "true", text, NULL };
	char line[64] = "KEPT=";
	char *envp[] = { line, NULL };

	take_text();
	strcat(line, text);
	pid_t pid = vfork();
	if (!pid) {
		execve("/bin/true", argv, envp);
		_exit(8);
	}
	waitpid(pid, NULL, 0);
}

static void residue(void)
{
	take_text();
	copy_by_string(kept, text, LENGTH);
	held = strdup(text);
	memset(text, 0, sizeof(text));
}

/* A program that ends in the middle, with a copy that stays. */
static int end_by(const char *how)
{
	take_text();
	copy_by_loop(kept, text);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "quick"))
		quick_exit(0);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "exec"))
		execl("/bin/true", "true", (char *)NULL);
	/* The child ends, and its parent, whose memory it has, does not. */
	if (!strcmp(how, "vfork") && !vfork())
		_exit(0);
	if (!strcmp(how, "vfork"))
		tell(kept, LENGTH);
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	return 0;
}

/* A large block grows by mremap(2). */
static void moved(void)
{
	const size_t size = 256 << 10;
	char *block = malloc(size);

	take_text();
	copy_by_loop(block + 5000, text);
	memset(text, 0, sizeof(text));
	/* No window lasts so long, and there is no room behind the block. */
	for (volatile int i = 0; i < 1500000; i++)
		;
	char *hole = malloc(size);
	char *grown = realloc(block, 64 * size);
	if (!grown || grown == block || !hole)
		exit(8);
	tell(grown + 5000, LENGTH);
	memset(grown + 5000, 'x', LENGTH);
	tell(grown + 5000, LENGTH);
	held = grown;
}

/* More functions than a window had room for. */
static char copies[400][LENGTH];
#define COPY(n)                                                   \
	__attribute__((noinline)) static void copy_##n(void)      \
	{                                                         \
		for (int i = 0; i < LENGTH; i++) {                \
			copies[1##n - 1000][i] = text[i];         \
			__asm__ volatile("" : : : "memory");      \
		}                                                 \
	}
#define CALL(n) copy_##n();
#define TEN(x, n) x(n##0) x(n##1) x(n##2) x(n##3) x(n##4) x(n##5) x(n##6) x(n##7) x(n##8) x(n##9)
#define HUNDRED(x, n)                                                                            \
	TEN(x, n##0) TEN(x, n##1) TEN(x, n##2) TEN(x, n##3) TEN(x, n##4) TEN(x, n##5) TEN(x, n##6) \
	TEN(x, n##7) TEN(x, n##8) TEN(x, n##9)
HUNDRED(COPY, 0)
HUNDRED(COPY, 1)
HUNDRED(COPY, 2)
HUNDRED(COPY, 3)

static void many(void)
{
	take_text();
	HUNDRED(CALL, 0)
	HUNDRED(CALL, 1)
	HUNDRED(CALL, 2)
	HUNDRED(CALL, 3)
	for (int i = 0; i < 400; i++)
		tell(copies[i], LENGTH);
}

static void computed(void)
{
	unsigned char hash[4];

	take_text();
	compute(hash, text);
	tell(hash, sizeof(hash));
}

/* A hash that stays in a register, until functions of others save it: the loader, then printf. */
static void in_register(void)
{
	unsigned int hash = 5381;

	take_text();
	for (const char *at = text; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	dprintf(2, "%c%c", (int)hash, (int)(hash >> 8));
}

/* Its caller stores it. */
__attribute__((noinline)) static unsigned int hash_of(const char *from)
{
	unsigned int hash = 5381;

	for (; *from; from++)
		hash = hash * 33 + (unsigned char)*from;
	return hash;
}

__attribute__((noinline)) static void by_result(void)
{
	unsigned int hash;

	take_text();
	hash = hash_of(text);
	tell(&hash, sizeof(hash));
}

static void table(void)
{
	char out[64];

	take_text();
	look_up(out, text);
	tell(out, LENGTH);
}

/* The bytes are overwritten before they are written: nothing of them gets out. */
static void cleared(void)
{
	char out[64];

	take_text();
	strcpy(out, text);
	memset(out, 'x', sizeof(out));
	tell(out, LENGTH);
}

static void environment(void)
{
	const char *value = getenv("FLOW_SECRET");

	if (value)
		tell(value, strlen(value));
}

/* What is computed is a number, which outlives a system call that may wait. */
static void number(void)
{
	int fd = dup(0);
	int value;

	take_text();
	compute((unsigned char *)&value, text);
	close(fd);
	note(value, "a number");
}

/* Reads until traps are no longer paid for. */
static void busy_child(void)
{
	char byte;

	take_text();
	if (!fork()) {
		int ends[2];

		if (pipe(ends))
			_exit(1);
		for (int i = 0; i < 1500000; i++)
			if (write(ends[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1)
				_exit(2);
		_exit(0);
	}
	int status = 0;
	if (wait(&status) < 0 || status)
		exit(8);
}

static void functions(void)
{
	char *made = make();

	note(1, made);
	free(made);
}

static void *pass_on(void *arg)
{
	int *ends = arg;
	char part[64];
	ssize_t n = recv(ends[1], part, sizeof(part), 0);

	if (n > 0)
		tell(part, (size_t)n);
	return NULL;
}

static void sockets(void)
{
	pthread_t thread;
	int ends[2];

	take_text();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    pthread_create(&thread, NULL, pass_on, ends))
		exit(6);
	struct iovec parts[2] = { { text, 10 }, { text + 10, LENGTH - 10 } };
	if (writev(ends[0], parts, 2) != LENGTH)
		exit(5);
	pthread_join(thread, NULL);
}

/* A worker is still in its window, and lives, when the process has ended. */
static void worker(void)
{
	volatile int *is_noted = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (is_noted == MAP_FAILED)
		exit(6);
	if (fork()) {
		while (!*is_noted)
			usleep(1000);
		return;
	}
	take_text();
	note(1, text);
	*is_noted = 1;
	for (int i = 0; i < 5000000; i++)
		kept[i % LENGTH] = *(volatile char *)&text[i % LENGTH];
	exit(0);
}

static void child(void)
{
	take_text();
	pid_t pid = fork();
	if (!pid) {
		tell(text, LENGTH);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static volatile sig_atomic_t handled;

static void on_signal(int sig)
{
	handled = sig;
}

/* A fault in the middle, and a signal that is sent: both meet their handlers. */
static void signals(void)
{
	char out[64];

	signal(SIGUSR1, on_signal);
	take_text();
	strcpy(out, text);
	raise(SIGUSR1);
	if (handled != SIGUSR1)
		exit(4);
	tell(out, LENGTH);
}

static void crash(void)
{
	take_text();
	strcpy(kept, text);
	*(volatile char *)8 = kept[0];
}

/* As shells read a line. */
static void byte_by_byte(void)
{
	size_t n = 0;
	char c;

	while (n + 1 < sizeof(text) && read(0, &c, 1) == 1 && c != '\n')
		text[n++] = c;
	tell(text, n);
}

/* So long that no window lasts. */
__attribute__((noinline)) static void do_else(void)
{
	for (volatile int i = 0; i < 1500000; i++)
		;
}

static volatile int has_text;

static void *copy_late(void *arg)
{
	while (!has_text)
		usleep(50000);
	char out[64];

	do_else();
	copy_by_loop(out, arg);
	do_else();
	tell(out, LENGTH);
	return NULL;
}

static void later(void)
{
	take_text();
	has_text = 1;
	copy_late(text);
}

static void later_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, copy_late, text))
		exit(5);
	take_text();
	has_text = 1;
	pthread_join(thread, NULL);
}

/* Runtimes give their handlers a few KiB, which may lie between other data. */
static void small_stack(void)
{
	enum {
		STACK = 8192,
		AROUND = 16384
	};
	char *memory = malloc(STACK + 2 * AROUND);
	const stack_t stack = { .ss_sp = memory + AROUND, .ss_size = STACK };

	memset(memory, 0x5a, STACK + 2 * AROUND);
	if (sigaltstack(&stack, NULL))
		exit(6);
	take_text();
	tell(text, LENGTH);
	for (size_t i = 0; i < STACK + 2 * AROUND; i++)
		if ((i < AROUND || i >= AROUND + STACK) && memory[i] != 0x5a)
			exit(7);
}

char variable[32];

static void set_variable(void)
{
	do_else();
	strcpy(variable, "set-long-after-the-begin");
	do_else();
	tell(variable, LENGTH);
}

/* The kernel alone has the bytes. */
static void pass(void)
{
	if (copy_file_range(0, NULL, 1, NULL, 4096, 0) <= 0)
		exit(errno == EINVAL || errno == EXDEV || errno == ENOSYS ? 77 : 8);
}

/* A copy that no instruction makes. */
static void copy_unseen(char *to)
{
	const struct iovec local = { to, LENGTH };
	const struct iovec remote = { text, LENGTH };

	take_text();
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != LENGTH)
		exit(8);
	memset(text, 0, sizeof(text));
}

static void unseen(void)
{
	char out[LENGTH];

	copy_unseen(out);
	tell(out, LENGTH);
	memcpy(kept, out, LENGTH);
	tell(kept, LENGTH);
}

/* All but a byte of it. */
static void unseen_other(void)
{
	char out[LENGTH];

	copy_unseen(out);
	out[LENGTH / 2] ^= 1;
	tell(out, LENGTH);
}

/* Behind much else. */
static void unseen_far(void)
{
	static char out[70000];

	copy_unseen(out + 66000 - LENGTH);
	tell(out, sizeof(out));
}

/* Until it is told to end: for -p. */
static void wait_for_text(void)
{
	while (fgets(text, sizeof(text), stdin)) {
		copy_by_loop(kept, text);
		printf("%zu\n", strlen(kept));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "path", path },
		{ "program", run_program },
		{ "exported", exported },
		{ "not-exported", not_exported },
		{ "spawned", spawned },
		{ "forked", forked },
		{ "moved", moved },
		{ "many", many },
		{ "residue", residue },
		{ "computed", computed },
		{ "in-register", in_register },
		{ "by-result", by_result },
		{ "table", table },
		{ "cleared", cleared },
		{ "environment", environment },
		{ "functions", functions },
		{ "number", number },
		{ "busy-child", busy_child },
		{ "sockets", sockets },
		{ "child", child },
		{ "worker", worker },
		{ "signals", signals },
		{ "crash", crash },
		{ "wait", wait_for_text },
		{ "bytes", byte_by_byte },
		{ "later", later },
		{ "later-thread", later_thread },
		{ "small-stack", small_stack },
		{ "variable", set_variable },
		{ "pass", pass },
		{ "unseen", unseen },
		{ "unseen-other", unseen_other },
		{ "unseen-far", unseen_far },
	};
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strncmp(mode, "end-", 4))
		return end_by(mode + 4);
	if (!strcmp(mode, "shell") || !strcmp(mode, "good")) {
		shell(!strcmp(mode, "shell"));
		return 0;
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(mode, modes[i].name) != 0)
			continue;
		modes[i].run();
		return 0;
	}
	return 2;
}
