/* SPDX-License-Identifier: MIT */
/* race_racy.c - one data race in each mode, by a known kind of access. */
#include "race_common.h"

#include <fcntl.h>
#include <unistd.h>

static long shared_word;
static long sink[2][8];

static NOINLINE void word_write(long v)
{
	shared_word = v;
}

static NOINLINE long word_read(void)
{
	return shared_word;
}

static void read_write(int thread)
{
	for (long n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				word_write(n++);
			else
				sink[0][0] += word_read();
			work(20);
		}
}

/* It takes long to watch all these threads, and what the one writer stores only grows. */
static void read_write_beside_many(int thread)
{
	if (thread < 2)
		read_write(thread);
	while (is_running())
		usleep(1000);
}

static void write_write(int thread)
{
	for (long n = thread; is_running();)
		for (int i = 0; i < ROUND; i++) {
			word_write(n += 2);
			work(20);
		}
}

static NOINLINE void word_increment(void)
{
	shared_word++;
}

static void read_modify_write(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			word_increment();
			work(20);
		}
}

/* A load and a store each; volatile makes no lock of them. */
static volatile long common_count;

static NOINLINE void common_increment(void)
{
	common_count++;
}

static void volatile_update(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			common_increment();
			work(20);
		}
}

static union {
	uint64_t whole;
	uint32_t half[2];
} split;

static NOINLINE void split_write(uint64_t v)
{
	split.whole = v << 32 | v;
}

static NOINLINE uint32_t split_read(void)
{
	return split.half[1];
}

static void partial_overlap(int thread)
{
	for (uint64_t n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				split_write(n++);
			else
				sink[0][0] += split_read();
			work(20);
		}
}

static struct __attribute__((packed)) {
	char c;
	uint32_t odd;
} packed;

static NOINLINE void packed_write(uint32_t v)
{
	packed.odd = v;
}

static NOINLINE uint32_t packed_read(void)
{
	return packed.odd;
}

static void unaligned(int thread)
{
	for (uint32_t n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				packed_write(n++);
			else
				sink[0][0] += packed_read();
			work(20);
		}
}

static char block[256];

static NOINLINE void block_copy_in(const char *from, size_t n)
{
	memcpy(block, from, n);
}

static NOINLINE void block_copy_out(char *to, size_t n)
{
	memcpy(to, block, n);
}

/* Lengths that the compiler does not know: a call of libc. */
static void memcpy_both(int thread)
{
	char mine[sizeof(block)];
	size_t n = sizeof(block) - (size_t)thread;

	for (int k = 0; is_running(); k++)
		for (int i = 0; i < ROUND; i++) {
			if (thread) {
				memset(mine, k + i, sizeof(mine));
				block_copy_in(mine, n);
			} else {
				block_copy_out(mine, n);
				sink[0][0] += mine[100];
			}
		}
}

static NOINLINE void block_clear(int c, size_t n)
{
	memset(block, c, n);
}

static NOINLINE int block_byte(size_t at)
{
	return block[at];
}

static void memset_and_byte(int thread)
{
	size_t n = sizeof(block) - (size_t)thread;

	for (int k = 0; is_running(); k++)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				block_clear(k, n);
			else
				for (size_t at = 0; at < 200; at += 8)
					sink[0][0] += block_byte(at);
		}
}

struct big {
	long words[12];
};
static struct big whole;

static NOINLINE void whole_write(const struct big *from)
{
	whole = *from;
}

static void struct_copy(int thread)
{
	struct big mine = { { 0 } };

	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			if (thread) {
				mine.words[5]++;
				whole_write(&mine);
			} else {
				sink[0][0] += *(volatile long *)&whole.words[5];
			}
			work(20);
		}
}

static char io_buffer[4096];

static NOINLINE long io_sum(void)
{
	long sum = 0;

	for (size_t i = 0; i < sizeof(io_buffer); i++)
		sum += io_buffer[i];
	return sum;
}

/* The kernel writes for one thread while the other reads. */
static void syscall_buffer(int thread)
{
	int fd = open("/dev/urandom", O_RDONLY);

	while (is_running()) {
		if (thread)
			sink[1][0] += read(fd, io_buffer, sizeof(io_buffer));
		else
			sink[0][0] += io_sum();
	}
	close(fd);
}

struct node {
	struct node *next;
	long value;
};
static struct node *list;

static NOINLINE void node_set(struct node *n, long v)
{
	n->value = v;
}

static NOINLINE long node_get(const struct node *n)
{
	return n->value;
}

static pthread_once_t list_once = PTHREAD_ONCE_INIT;

static void list_make(void)
{
	for (int i = 0; i < 8; i++) {
		struct node *n = calloc(1, sizeof(*n));
		n->next = list;
		list = n;
	}
}

static void heap(int thread)
{
	pthread_once(&list_once, list_make);
	for (long k = 0; is_running(); k++)
		for (int i = 0; i < ROUND; i++)
			for (struct node *n = list; n; n = n->next) {
				if (thread)
					node_set(n, k);
				else
					sink[0][0] += node_get(n);
			}
}

static __thread long own;
static long *escaped;
static pthread_barrier_t meeting;

static NOINLINE void own_write(long v)
{
	own = v;
}

static NOINLINE long escaped_read(const long *p)
{
	return *p;
}

static __attribute__((constructor)) void make_meeting(void)
{
	pthread_barrier_init(&meeting, NULL, 2);
}

static void tls_escape(int thread)
{
	if (thread)
		escaped = &own;
	pthread_barrier_wait(&meeting);
	for (long n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				own_write(n++);
			else
				sink[0][0] += escaped_read(escaped);
			work(20);
		}
	pthread_barrier_wait(&meeting);
}

static void stack_escape(int thread)
{
	long local = 0;

	if (thread)
		escaped = &local;
	pthread_barrier_wait(&meeting);
	for (long n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				*(volatile long *)&local = n++;
			else
				sink[0][0] += escaped_read(escaped);
			work(20);
		}
	pthread_barrier_wait(&meeting);
}

/* A pool that hands out its tasks correctly; what they do is wrong. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static long pool_next;
static struct {
	long done;
	long total;
} pool_result;

static NOINLINE void pool_task(long number)
{
	work(200);
	pool_result.done = pool_result.done + 1;
	pool_result.total += number;
}

static void thread_pool(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			pthread_mutex_lock(&pool_lock);
			long number = pool_next++;
			pthread_mutex_unlock(&pool_lock);
			pool_task(number);
		}
}

/* Each is guarded, by another lock. */
static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

static void two_locks(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			pthread_mutex_lock(&locks[thread]);
			word_increment();
			pthread_mutex_unlock(&locks[thread]);
			work(50);
		}
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void write_under_read_lock(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			pthread_rwlock_rdlock(&rwlock);
			word_increment();
			pthread_rwlock_unlock(&rwlock);
			work(50);
		}
}

static struct {
	unsigned int a : 4;
	unsigned int b : 4;
} bits;

static NOINLINE void bits_set_a(unsigned int v)
{
	bits.a = v;
}

static NOINLINE void bits_set_b(unsigned int v)
{
	bits.b = v;
}

static void bit_fields(int thread)
{
	for (unsigned int n = 0; is_running(); n++)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				bits_set_a(n + (unsigned int)i);
			else
				bits_set_b(n + (unsigned int)i);
			work(20);
			if (n == 1u << 31)
				sink[0][0] += bits.a + bits.b; /* else nobody would read them */
		}
}

/* A flag looked at between pieces of work, as many programs end their threads. */
static int stop_asked;
static long progress[2];

static NOINLINE int is_stop_asked(void)
{
	return stop_asked;
}

static NOINLINE void ask_stop(int v)
{
	stop_asked = v;
}

static void plain_flag(int thread)
{
	for (int n = 0; is_running(); n++)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				ask_stop(n);
			else if (is_stop_asked() == -1)
				return;
			progress[thread]++;
			work(100);
		}
}

static double temperature;

static NOINLINE void temperature_set(double v)
{
	temperature = v;
}

static NOINLINE double temperature_get(void)
{
	return temperature;
}

static void floating_point(int thread)
{
	for (double n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				temperature_set(n += 0.5);
			else
				sink[0][0] += (long)temperature_get();
			work(20);
		}
}

/* Some count it with care, one does not. */
static long requests;

static NOINLINE void requests_add(void)
{
	__sync_fetch_and_add(&requests, 1);
}

static NOINLINE void requests_bump(void)
{
	requests++;
}

static NOINLINE void requests_set(long v)
{
	requests = v;
}

static void locked_and_update(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				requests_add();
			else
				requests_bump();
			work(20);
		}
}

static void locked_and_store(int thread)
{
	for (long n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread)
				requests_add();
			else
				requests_set(n += 1000);
			work(20);
		}
}

/* __volatile__ is no sign of an atomic here. */
static char filled[64];

static NOINLINE void fill(char *to, long n, int with)
{
	__asm__ __volatile__("rep stosb" : "+D"(to), "+c"(n) : "a"(with) : "memory");
}

static void repeated_store(int thread)
{
	for (int n = 0; is_running(); n++)
		for (int i = 0; i < ROUND; i++) {
			fill(filled + (thread ? 0 : 20), thread ? 30 : 1, n + i + thread);
			work(20);
		}
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{ "read_write", read_write, 2 },
		{ "read_write_beside_many", read_write_beside_many, THREADS_MAX },
		{ "write_write", write_write, 2 },
		{ "read_modify_write", read_modify_write, 2 },
		{ "volatile_update", volatile_update, 2 },
		{ "partial_overlap", partial_overlap, 2 },
		{ "unaligned", unaligned, 2 },
		{ "repeated_store", repeated_store, 2 },
		{ "memcpy", memcpy_both, 2 },
		{ "memset", memset_and_byte, 2 },
		{ "struct_copy", struct_copy, 2 },
		{ "syscall_buffer", syscall_buffer, 2 },
		{ "heap", heap, 2 },
		{ "tls_escape", tls_escape, 2 },
		{ "stack_escape", stack_escape, 2 },
		{ "thread_pool", thread_pool, 4 },
		{ "two_locks", two_locks, 2 },
		{ "write_under_read_lock", write_under_read_lock, 2 },
		{ "bit_fields", bit_fields, 2 },
		{ "plain_flag", plain_flag, 2 },
		{ "floating_point", floating_point, 2 },
		{ "locked_and_update", locked_and_update, 2 },
		{ "locked_and_store", locked_and_store, 2 },
	};

	return run_modes(argc, argv, modes, sizeof(modes) / sizeof(modes[0]));
}
