// SPDX-License-Identifier: MIT
/*
 * heap_right.c - what a right program may do with blocks, though it looks like an error to a tool that
 * puts them elsewhere. These cases have no error, bad or not.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "heap_cases.h"

extern char **environ;

/* As the allocators have it. */
static void right_alignment(int bad)
{
	(void)bad;
	for (size_t n = 1; n < 600; n++) {
		char *p = malloc(n);
		char *c = calloc(1, n);
		char *r = realloc(NULL, n);
		size_t want = n > 8 ? 16 : 8;

		heap_require(((uintptr_t)p | (uintptr_t)c | (uintptr_t)r) % want == 0,
			     "a block is aligned");
		free(p);
		free(c);
		free(r);
	}
}

struct right_named {
	pthread_mutex_t lock;
	pthread_cond_t is_there;
	int there;
	char name[];
};

static void *right_tell(void *arg)
{
	struct right_named *p = arg;

	pthread_mutex_lock(&p->lock);
	p->there = 1;
	pthread_cond_signal(&p->is_there);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* A lock in a block whose size is odd: futex() wants words that are aligned. */
static void right_locked(int bad)
{
	struct right_named *p = malloc(sizeof(*p) + 14);
	pthread_t thread;

	(void)bad;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->is_there, NULL);
	p->there = 0;
	strcpy(p->name, "thirteen long");
	pthread_mutex_lock(&p->lock);
	heap_require(!pthread_create(&thread, NULL, right_tell, p), "pthread_create");
	while (!p->there)
		pthread_cond_wait(&p->is_there, &p->lock);
	pthread_mutex_unlock(&p->lock);
	pthread_join(thread, NULL);
	free(p);
}

/* The compiler may use aligned vectors on what malloc gives. */
static void right_vector(int bad)
{
	(void)bad;
	for (int n = 16; n < 100; n++) {
		char *p = malloc(n);

#ifdef __x86_64__
		__asm__ volatile("pxor %%xmm0, %%xmm0\n\tmovaps %%xmm0, (%0)" ::"r"(p)
				 : "xmm0", "memory");
#endif
		heap_require(get(p) == get(p + 15), "the vector is written");
		free(p);
	}
}

/* Loads of whole vectors that hold the block, as string functions do it. */
static void right_vector_around(int bad)
{
	(void)bad;
#ifdef __x86_64__
	for (int n = 1; n < 70; n++) {
		char *p = calloc(1, n);
		uintptr_t first = (uintptr_t)p & ~(uintptr_t)15;
		uintptr_t last = ((uintptr_t)p + n - 1) & ~(uintptr_t)15;

		__asm__ volatile("movdqa (%0), %%xmm0\n\tmovdqa (%1), %%xmm0" ::"r"(first),
				 "r"(last)
				 : "xmm0", "memory");
		free(p);
	}
#endif
}

static void right_strings(int bad)
{
	(void)bad;
	for (int n = 1; n < 200; n++) {
		char *p = malloc(n);
		char *q = malloc(n);

		memset(p, 'a', n - 1);
		p[n - 1] = 0;
		strcpy(q, p);
		heap_require(strlen(q) == (size_t)n - 1 && !strcmp(p, q) && !strchr(p, 'b') &&
				     !strcasecmp(p, q) && !memcmp(p, q, n) &&
				     memchr(p, 0, n) == p + n - 1 && !strrchr(p, 'b') &&
				     memrchr(p, 0, n) == p + n - 1 && rawmemchr(p, 0) == p + n - 1,
			     "strings are as they were");
		char *copy = strdup(p);

		free(p);
		free(q);
		free(copy);
	}
}

/* All that malloc_usable_size() tells may be used. */
/* For a set of more than 16, libc reads four bytes at a time, also behind the end. */
static void right_sets(int bad)
{
	static const char set[] = "bcdefghijklmnopqrstuvwxyz0123456789";

	(void)bad;
	for (size_t n = 1; n < 70; n++) {
		char *a = malloc(n + 1);
		char *b = malloc(n + 1);

		memset(a, 'a', n);
		memset(b, 'b', n);
		a[n] = b[n] = '\0';
		heap_require(strcspn(a, set) == n && strspn(b, set) == n && !strpbrk(a, set),
			     "strings end where they end");
		free(a);
		free(b);
	}
}

static void right_usable(int bad)
{
	(void)bad;
	for (int n = 0; n < 3000; n += 37) {
		char *p = malloc(n);
		size_t usable = malloc_usable_size(p);

		heap_require(usable >= (size_t)n, "the usable size holds the block");
		memset(hide(p), 1, usable);
		free(p);
	}
	heap_require(malloc_usable_size(NULL) == 0, "NULL has no bytes");
}

static void right_realloc(int bad)
{
	char *p = NULL;

	(void)bad;
	for (int n = 1; n < 40000; n = n * 5 / 4 + 1) {
		p = realloc(p, n);
		p[n - 1] = (char)n;
		for (int i = 1; i < n; i = i * 5 / 4 + 1)
			heap_require(p[i - 1] == (char)i, "realloc keeps all");
	}
	for (int n = 30000; n > 0; n = n * 3 / 4) {
		p = realloc(p, n);
		heap_require(p[0] == 1, "realloc keeps what stays");
	}
	free(p);
	p = malloc(40);
	errno = 0;
	heap_require(!realloc(hide(p), (size_t)hide((void *)(PTRDIFF_MAX - 64))) && errno == ENOMEM,
		     "realloc of too much fails");
	memset(p, 1, 40); /* and the block is there still */
	free(p);
	p = reallocarray(NULL, 10, 12);
	memset(p, 1, 120);
	free(p);
	errno = 0;
	heap_require(!reallocarray(NULL, (size_t)hide((void *)(SIZE_MAX / 2)), 4) &&
			     errno == ENOMEM,
		     "reallocarray sees the product");
}

static void right_none(int bad)
{
	(void)bad;
	free(NULL);
	char *p = malloc((size_t)hide(NULL));
	char *q = malloc((size_t)hide(NULL));

	heap_require(p && q && p != q, "blocks of no bytes differ");
	free(p);
	free(q);
	errno = 0;
	heap_require(!malloc((size_t)hide((void *)(PTRDIFF_MAX - 64))) && errno == ENOMEM,
		     "too much fails");
	errno = 0;
	heap_require(!calloc((size_t)hide((void *)(SIZE_MAX / 4)), 8) && errno == ENOMEM,
		     "calloc sees the product");
	errno = 77;
	free(malloc(100));
	heap_require(errno == 77, "free keeps errno");
}

static void right_aligned(int bad)
{
	(void)bad;
	for (size_t align = sizeof(void *); align <= 65536; align *= 2)
		for (size_t n = 1; n < 5000; n = n * 3 + 1) {
			void *p = NULL;
			void *m = memalign(align, n);

			heap_require(!posix_memalign(&p, align, n) && (uintptr_t)p % align == 0 &&
					     (uintptr_t)m % align == 0,
				     "blocks are aligned as asked");
			memset(p, 1, n);
			memset(m, 1, n);
			free(p);
			free(m);
		}
	void *p = hide("untouched");
	void *was = p;

	heap_require(posix_memalign(&p, 3, 8) == EINVAL && p == was,
		     "a wrong alignment is refused");
	p = valloc(100);
	heap_require((uintptr_t)p % 4096 == 0, "valloc gives pages");
	free(p);
	p = pvalloc(100);
	heap_require((uintptr_t)p % 4096 == 0, "pvalloc gives pages");
	free(p);
}

/* Blocks that another thread frees. */
static void *right_take(void *blocks)
{
	for (void **b = blocks; *b; b++)
		free(*b);
	free(blocks);
	return NULL;
}

static void right_threads(int bad)
{
	pthread_t threads[8];

	(void)bad;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++) {
			char **blocks = calloc(101, sizeof(*blocks));

			for (int b = 0; b < 100; b++) {
				blocks[b] = malloc(20 + b);
				memset(blocks[b], b, 20 + b);
			}
			heap_require(!pthread_create(&threads[i], NULL, right_take, blocks),
				     "pthread_create");
		}
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
	}
}

static void right_in_handler(int number)
{
	(void)number;
	char *p = malloc(72);

	memset(p, 1, 72);
	free(p);
}

/* malloc in a handler of a signal that cannot come inside malloc. */
static void right_signal(int bad)
{
	struct sigaction action = { .sa_handler = right_in_handler };
	struct sigaction before;

	(void)bad;
	sigaction(SIGUSR2, &action, &before);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR2);
	sigaction(SIGUSR2, &before, NULL);
}

static sigjmp_buf right_back;
static void *volatile right_address;

static void right_on_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	right_address = info->si_addr;
	siglongjmp(right_back, 1);
}

/* The program's own faults come to its own handler, with their address. */
static void right_own_fault(int bad)
{
	struct sigaction action = { .sa_sigaction = right_on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction before;
	struct sigaction seen;
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)bad;
	sigaction(SIGSEGV, &action, &before);
	for (volatile int i = 0; i < 3; i++) {
		right_address = NULL;
		if (!sigsetjmp(right_back, 1))
			put(page + 100, 1);
		heap_require(right_address == page + 100,
			     "the program's handler gets its own fault");
	}
	sigaction(SIGSEGV, NULL, &seen);
	heap_require(seen.sa_sigaction == right_on_fault && (seen.sa_flags & SA_SIGINFO),
		     "sigaction tells the program's own handler");
	sigaction(SIGSEGV, &before, NULL);
	munmap(page, 4096);
}

static char *right_guarded;
static volatile int right_faults;

static void right_let(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	right_faults += (char *)info->si_addr == right_guarded + 4096 + 8;
	mprotect(right_guarded, 12288, PROT_READ | PROT_WRITE);
}

/* A collector takes access to its own block away, to learn of a write. */
static void right_own_guard(int bad)
{
	struct sigaction action = { .sa_sigaction = right_let, .sa_flags = SA_SIGINFO };
	struct sigaction before;
	void *p = NULL;

	(void)bad;
	heap_require(!posix_memalign(&p, 4096, 12288), "posix_memalign");
	memset(p, 1, 12288);
	right_guarded = p;
	right_faults = 0;
	sigaction(SIGSEGV, &action, &before);
	mprotect(right_guarded + 4096, 4096, PROT_NONE);
	put(right_guarded + 4096 + 8, 1);
	mprotect(right_guarded + 4096, 4096, PROT_READ);
	put(right_guarded + 4096 + 8, 2);
	heap_require(right_faults == 2 && get(p) == 1 && get(right_guarded + 4096 + 8) == 2,
		     "the program's handler gets the faults of pages that it closed");
	sigaction(SIGSEGV, &before, NULL);
	free(p);
}

static ucontext_t right_main;
static ucontext_t right_other;
static void *right_blocks[64];

static void right_on_block(void)
{
	for (int i = 0; i < 64; i++) {
		free(right_blocks[i]);
		right_blocks[i] = malloc(200);
		memset(right_blocks[i], 1, 200);
	}
}

/* A coroutine: its stack lies among the blocks of the allocator. */
static void right_coroutine(int bad)
{
	(void)bad;
	for (volatile int size = 32768; size <= 262144; size *= 2) {
		char *stack = malloc(size);

		for (int i = 0; i < 64; i++)
			right_blocks[i] = malloc(size / 32); /* above the stack */
		getcontext(&right_other);
		right_other.uc_stack.ss_sp = stack;
		right_other.uc_stack.ss_size = size;
		right_other.uc_link = &right_main;
		makecontext(&right_other, right_on_block, 0);
		swapcontext(&right_main, &right_other);
		for (int i = 0; i < 64; i++)
			free(right_blocks[i]);
		free(stack);
	}
}

static void *right_on_own_stack(void *arg)
{
	(void)arg;
	right_on_block();
	return NULL;
}

/* A thread on a stack that the program allocated. */
static void right_own_stack(int bad)
{
	(void)bad;
	for (int i = 0; i < 3; i++) {
		pthread_attr_t attr;
		pthread_t thread;
		void *stack = NULL;

		heap_require(!posix_memalign(&stack, 4096, 65536), "posix_memalign");
		for (int b = 0; b < 64; b++)
			right_blocks[b] = malloc(200);
		pthread_attr_init(&attr);
		pthread_attr_setstack(&attr, stack, 65536);
		heap_require(!pthread_create(&thread, &attr, right_on_own_stack, NULL),
			     "pthread_create");
		pthread_join(thread, NULL);
		pthread_attr_destroy(&attr);
		for (int b = 0; b < 64; b++)
			free(right_blocks[b]);
		free(stack);
	}
}

static void right_fork(int bad)
{
	(void)bad;
	char *p = malloc(100);
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		memset(p, 1, 100);
		free(p);
		for (int i = 0; i < 50; i++) {
			char *q = malloc(30 + i);

			memset(q, 1, 30 + i);
			free(q);
		}
		_exit(4);
	}
	heap_require(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			     WEXITSTATUS(status) == 4,
		     "a child that frees its copy ends well");
	memset(p, 2, 100);
	free(p);
}

/* vfork() and posix_spawn(): a child that shares the memory for a while. */
static void right_spawn(int bad)
{
	(void)bad;
	char *argv[] = { "true", NULL };
	int status = -1;
	pid_t pid;

	heap_require(!posix_spawnp(&pid, "true", NULL, NULL, argv, environ), "posix_spawnp");
	heap_require(waitpid(pid, &status, 0) == pid && status == 0,
		     "a program of its own ends well");
	pid = vfork();
	if (!pid) {
		execlp("true", "true", (char *)NULL);
		_exit(5);
	}
	heap_require(waitpid(pid, &status, 0) == pid && status == 0, "vfork and exec end well");
}

static void right_stdio(int bad)
{
	(void)bad;
	char *line = NULL;
	size_t room = 0;
	FILE *f = tmpfile();

	heap_require(f != NULL, "tmpfile");
	for (int i = 0; i < 50; i++)
		fprintf(f, "%0*d\n", i * 7 + 1, i);
	rewind(f);
	for (int i = 0; i < 50; i++)
		heap_require(getline(&line, &room, f) == i * 7 + 2, "getline reads the line");
	fclose(f);
	free(line);
	char *text = NULL;

	heap_require(asprintf(&text, "%s and %d", "words", 7) == 11, "asprintf");
	free(text);
	f = open_memstream(&text, &room);
	for (int i = 0; i < 500; i++)
		fputs("growing ", f);
	fclose(f);
	heap_require(room == 4000 && strlen(text) == 4000, "open_memstream");
	free(text);
}

static int right_order(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* What libc allocates, sorts and unlinks by itself. */
static void right_libc(int bad)
{
	(void)bad;
	int *numbers = malloc(3001 * sizeof(*numbers));

	for (int i = 0; i < 3001; i++)
		numbers[i] = (i * 7919) % 3001;
	qsort(numbers, 3001, sizeof(*numbers), right_order);
	for (int i = 0; i < 3001; i++)
		heap_require(numbers[i] == i, "qsort sorts");
	free(numbers);
	for (int i = 0; i < 50; i++) {
		char name[20];

		snprintf(name, sizeof(name), "HEAP_%d", i);
		setenv(name, "a value", 1);
	}
	for (int i = 0; i < 50; i++) {
		char name[20];

		snprintf(name, sizeof(name), "HEAP_%d", i);
		heap_require(!strcmp(getenv(name), "a value"), "the environment keeps its values");
		unsetenv(name);
	}
	free(realpath("/proc/self/exe", NULL));
	free(getcwd(NULL, 0));
}

static volatile sig_atomic_t right_aborts;

static void right_on_abort(int number)
{
	right_aborts += number == SIGABRT;
}

/* The signals of death are the program's own, as far as it can see. */
static void right_default_actions(int bad)
{
	static const int numbers[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL };
	struct sigaction action = { .sa_handler = right_on_abort };
	struct sigaction old;
	int status;

	(void)bad;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		heap_require(!sigaction(numbers[i], NULL, &old) && old.sa_handler == SIG_DFL &&
				     !(old.sa_flags & SA_SIGINFO),
			     "the action is the default");
		heap_require(signal(numbers[i], SIG_IGN) == SIG_DFL, "the old one is the default");
		heap_require(signal(numbers[i], SIG_DFL) == SIG_IGN, "then it is ignored");
	}
	sigaction(SIGABRT, &action, NULL);
	raise(SIGABRT);
	heap_require(right_aborts == 1, "its handler runs");
	heap_require(signal(SIGABRT, SIG_DFL) == right_on_abort, "its handler was there");
	pid_t child = fork();
	if (!child) {
		raise(SIGABRT);
		_exit(0);
	}
	heap_require(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
			     WTERMSIG(status) == SIGABRT,
		     "a child dies of the signal");
}

/* Programs ask so what the kernel can do. */
static void right_refused_calls(int bad)
{
	struct iovec one = { &one, 1 };
	struct iovec *nowhere = hide((void *)16);
	struct msghdr message = { .msg_iov = nowhere, .msg_iovlen = 2 };
	struct msghdr *none = hide(NULL);
	volatile int too_long = 1 << 20;
	volatile int too_short = -1;
	int fds[2];

	(void)bad;
	heap_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), "socketpair");
	heap_require(writev(fds[0], nowhere, 2) == -1 && errno == EFAULT, "writev() fails");
	heap_require(readv(fds[0], hide(NULL), 2) == -1 && errno == EFAULT, "readv() fails");
	heap_require(writev(fds[0], &one, too_long) == -1 && errno == EINVAL,
		     "no vector is so long");
	heap_require(writev(fds[0], &one, too_short) == -1 && errno == EINVAL, "nor so short");
	heap_require(sendmsg(fds[0], none, 0) == -1 && errno == EFAULT, "sendmsg() fails");
	heap_require(recvmsg(fds[0], none, 0) == -1 && errno == EFAULT, "recvmsg() fails");
	heap_require(sendmsg(fds[0], &message, 0) == -1 && errno == EFAULT,
		     "its vector is nowhere");
	message.msg_iovlen = (size_t)-1;
	heap_require(sendmsg(fds[0], &message, 0) == -1 && errno == EMSGSIZE, "it is too long");
	close(fds[0]);
	close(fds[1]);
}

#define RIGHT(n)                                    \
	{                                           \
#n, n, NULL, NULL, NULL, 0, 0, 0, 0 \
	}

const struct heap_case heap_case_right[] = {
	RIGHT(right_alignment),
	RIGHT(right_locked),
	RIGHT(right_vector),
	RIGHT(right_vector_around),
	RIGHT(right_strings),
	RIGHT(right_sets),
	RIGHT(right_usable),
	RIGHT(right_realloc),
	RIGHT(right_none),
	RIGHT(right_aligned),
	RIGHT(right_threads),
	RIGHT(right_signal),
	RIGHT(right_own_fault),
	RIGHT(right_own_guard),
	RIGHT(right_coroutine),
	RIGHT(right_own_stack),
	RIGHT(right_fork),
	RIGHT(right_spawn),
	RIGHT(right_stdio),
	RIGHT(right_libc),
	RIGHT(right_refused_calls),
	RIGHT(right_default_actions),
	{ NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 },
};
