/* SPDX-License-Identifier: MIT */
/* race_right.c - programs that share memory correctly, each in its own way: nothing to report. */
#include "race_common.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static long shared_word;
static long shared_block[16];

static NOINLINE void touch_all(void)
{
	shared_word++;
	for (int i = 0; i < 16; i++)
		shared_block[i] += shared_word;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void with_mutex(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			pthread_mutex_lock(&mutex);
			touch_all();
			pthread_mutex_unlock(&mutex);
		}
}

static pthread_spinlock_t spin;

static void with_spinlock(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			pthread_spin_lock(&spin);
			touch_all();
			pthread_spin_unlock(&spin);
		}
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long sink[8][8];

static void with_rwlock(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			if (thread == 0) {
				pthread_rwlock_wrlock(&rwlock);
				touch_all();
			} else {
				pthread_rwlock_rdlock(&rwlock);
				sink[thread][0] += shared_word + shared_block[i % 16];
			}
			pthread_rwlock_unlock(&rwlock);
		}
}

static sem_t sem;

static void with_semaphore(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			sem_wait(&sem);
			touch_all();
			sem_post(&sem);
		}
}

/* A bounded queue with a condition variable; the pieces are freed by the other side. */
#define QUEUE 16
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static long *queue[QUEUE];
static unsigned int queue_head;
static unsigned int queue_tail;
static int producers_done;

static void with_condition(int thread)
{
	if (thread == 0) {
		for (long n = 0; is_running(); n++) {
			long *piece = malloc(64);
			for (int i = 0; i < 8; i++)
				piece[i] = n + i;
			pthread_mutex_lock(&mutex);
			while (queue_head - queue_tail == QUEUE)
				pthread_cond_wait(&not_full, &mutex);
			queue[queue_head++ % QUEUE] = piece;
			pthread_cond_signal(&not_empty);
			pthread_mutex_unlock(&mutex);
		}
		pthread_mutex_lock(&mutex);
		producers_done = 1;
		pthread_cond_broadcast(&not_empty);
		pthread_mutex_unlock(&mutex);
		return;
	}
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (queue_head == queue_tail && !producers_done)
			pthread_cond_wait(&not_empty, &mutex);
		if (queue_head == queue_tail) {
			pthread_mutex_unlock(&mutex);
			return;
		}
		long *piece = queue[queue_tail++ % QUEUE];
		pthread_cond_signal(&not_full);
		pthread_mutex_unlock(&mutex);
		for (int i = 0; i < 8; i++)
			sink[thread][0] += piece[i]++;
		free(piece);
	}
}

static pthread_barrier_t barrier;
static atomic_int rounds_over;

static void with_barrier(int thread)
{
	for (;;) {
		for (int i = 0; i < 8; i++)
			shared_block[thread * 8 + i]++;
		if (thread == 0 && !is_running())
			atomic_store(&rounds_over, 1);
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < 16; i++)
			sink[thread][0] += shared_block[i];
		int over = atomic_load(&rounds_over);
		pthread_barrier_wait(&barrier);
		if (over)
			return;
	}
}

static atomic_long counter;
static atomic_long maximum;

static void with_atomics(int thread)
{
	for (long n = thread; is_running();)
		for (int i = 0; i < ROUND; i++) {
			atomic_fetch_add(&counter, 1);
			atomic_store_explicit(&maximum, n += 2, memory_order_relaxed);
			sink[thread][0] += atomic_load_explicit(&maximum, memory_order_relaxed);
			work(20);
		}
}

/* Release and acquire are plain movs on x86-64. */
static long payload[8];
static atomic_int turn;

static void with_release_acquire(int thread)
{
	while (is_running()) {
		for (int i = 0; i < ROUND; i++) {
			while (atomic_load_explicit(&turn, memory_order_acquire) != thread)
				if (!is_running())
					return;
			for (int k = 0; k < 8; k++)
				payload[k] += k;
			atomic_store_explicit(&turn, !thread, memory_order_release);
		}
	}
}

/* A ring for one producer and one consumer, on the heap. */
struct spsc {
	_Atomic unsigned int head;
	char pad[60];
	_Atomic unsigned int tail;
	long items[64];
};
static struct spsc *spsc;

static void with_spsc_queue(int thread)
{
	for (long n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			unsigned int head = atomic_load_explicit(
				&spsc->head, thread ? memory_order_acquire : memory_order_relaxed);
			unsigned int tail = atomic_load_explicit(
				&spsc->tail, thread ? memory_order_relaxed : memory_order_acquire);
			if (!thread && head - tail < 64) {
				spsc->items[head % 64] = n++;
				atomic_store_explicit(&spsc->head, head + 1, memory_order_release);
			} else if (thread && head != tail) {
				sink[1][0] += spsc->items[tail % 64];
				atomic_store_explicit(&spsc->tail, tail + 1, memory_order_release);
			}
		}
}

/* Many producers, many consumers: each cell has a sequence number. */
struct cell {
	atomic_size_t sequence;
	long item;
};
static struct {
	struct cell cells[64];
	atomic_size_t in;
	atomic_size_t out;
} mpmc;

static int mpmc_put(long item)
{
	size_t at = atomic_load_explicit(&mpmc.in, memory_order_relaxed);

	for (;;) {
		struct cell *c = &mpmc.cells[at % 64];
		size_t sequence = atomic_load_explicit(&c->sequence, memory_order_acquire);
		if (sequence == at) {
			if (atomic_compare_exchange_weak(&mpmc.in, &at, at + 1)) {
				c->item = item;
				atomic_store_explicit(&c->sequence, at + 1, memory_order_release);
				return 1;
			}
		} else if (sequence < at) {
			return 0;
		} else {
			at = atomic_load_explicit(&mpmc.in, memory_order_relaxed);
		}
	}
}

static int mpmc_take(long *item)
{
	size_t at = atomic_load_explicit(&mpmc.out, memory_order_relaxed);

	for (;;) {
		struct cell *c = &mpmc.cells[at % 64];
		size_t sequence = atomic_load_explicit(&c->sequence, memory_order_acquire);
		if (sequence == at + 1) {
			if (atomic_compare_exchange_weak(&mpmc.out, &at, at + 1)) {
				*item = c->item;
				atomic_store_explicit(&c->sequence, at + 64, memory_order_release);
				return 1;
			}
		} else if (sequence < at + 1) {
			return 0;
		} else {
			at = atomic_load_explicit(&mpmc.out, memory_order_relaxed);
		}
	}
}

static void with_mpmc_queue(int thread)
{
	long item;

	for (long n = 0; is_running();)
		for (int i = 0; i < ROUND; i++) {
			if (thread & 1)
				mpmc_put(n++);
			else if (mpmc_take(&item))
				sink[thread][0] += item;
		}
}

/* A stack with a version beside the top, so that nodes can be used again. */
struct stack_node {
	_Atomic uint32_t next;
	long value;
};
static struct stack_node stack_nodes[128];
static _Atomic uint64_t stack_top; /* version << 32 | index + 1 */

static void stack_push(uint32_t index)
{
	uint64_t top = atomic_load(&stack_top);

	do
		atomic_store_explicit(&stack_nodes[index].next, (uint32_t)top, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&stack_top, &top,
					     ((top >> 32) + 1) << 32 | (index + 1)));
}

static int stack_pop(uint32_t *index)
{
	uint64_t top = atomic_load(&stack_top);
	uint64_t next;

	do {
		if (!(uint32_t)top)
			return 0;
		next = atomic_load_explicit(&stack_nodes[(uint32_t)top - 1].next,
					    memory_order_relaxed);
	} while (!atomic_compare_exchange_weak(&stack_top, &top,
					       ((top >> 32) + 1) << 32 | (uint32_t)next));
	*index = (uint32_t)top - 1;
	return 1;
}

static void with_lock_free_stack(int thread)
{
	uint32_t index;

	while (is_running())
		for (int i = 0; i < ROUND; i++)
			if (stack_pop(&index)) {
				stack_nodes[index].value++;
				stack_push(index);
			}
}

static atomic_uint sequence;
static atomic_long guarded[4];

static void with_seqlock(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			if (thread == 0) {
				unsigned int s = atomic_load_explicit(&sequence, memory_order_relaxed);
				atomic_store_explicit(&sequence, s + 1, memory_order_relaxed);
				atomic_thread_fence(memory_order_release);
				for (int k = 0; k < 4; k++)
					atomic_store_explicit(&guarded[k], (long)s + k,
							      memory_order_relaxed);
				atomic_store_explicit(&sequence, s + 2, memory_order_release);
				work(50);
				continue;
			}
			unsigned int s = atomic_load_explicit(&sequence, memory_order_acquire);
			for (int k = 0; k < 4; k++)
				sink[thread][0] += atomic_load_explicit(&guarded[k],
									memory_order_relaxed);
			atomic_thread_fence(memory_order_acquire);
			sink[thread][1] += s == atomic_load_explicit(&sequence,
								     memory_order_relaxed);
		}
}

/* A lock of one's own: exchange to take it, a plain store to give it back, futex to sleep. */
static atomic_int futex_word;

static void with_futex_lock(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			while (atomic_exchange(&futex_word, 1))
				syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 1,
					&(struct timespec){ 0, 100000 }, NULL, 0);
			touch_all();
			atomic_store_explicit(&futex_word, 0, memory_order_release);
			syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		}
}

static atomic_uint ticket_next;
static atomic_uint ticket_now;

static void with_ticket_lock(int thread)
{
	while (is_running())
		for (int i = 0; i < 10; i++) {
			unsigned int mine = atomic_fetch_add(&ticket_next, 1);
			while (atomic_load_explicit(&ticket_now, memory_order_acquire) != mine)
				sched_yield();
			touch_all();
			atomic_store_explicit(&ticket_now, mine + 1, memory_order_release);
		}
}

/*
 * Taken by a locked instruction and let go by a plain store, which no word in the source tells from
 * any other: a flag, a state, a bit in assembler.
 */
static int taken;
static int state;
static unsigned int in_use;

static NOINLINE void by_exchange(void)
{
	/* 2: somebody waits. So the value changes under who is about to let go. */
	if (!__sync_bool_compare_and_swap(&taken, 0, 1))
		while (__sync_lock_test_and_set(&taken, 2))
			sched_yield();
	touch_all();
	__asm__ volatile("" ::: "memory");
	taken = 0;
}

enum { IDLE, BUSY };

static NOINLINE void by_compare_and_exchange(void)
{
	while (!__sync_bool_compare_and_swap(&state, IDLE, BUSY))
		sched_yield();
	touch_all();
	__asm__ volatile("" ::: "memory");
	state = IDLE;
}

static NOINLINE void in_assembler(void)
{
	while (__sync_fetch_and_or(&in_use, 1) & 1)
		sched_yield();
	touch_all();
	__asm__ volatile("movl $0, %0" : "=m"(in_use)::"memory");
}

static void with_store_that_lets_go(int thread)
{
	while (is_running())
		for (int i = 0; i < 10; i++)
			by_exchange();
}

static void with_states(int thread)
{
	while (is_running())
		for (int i = 0; i < 10; i++)
			by_compare_and_exchange();
}

static void with_assembler(int thread)
{
	while (is_running())
		for (int i = 0; i < 10; i++)
			in_assembler();
}

/* One thread counts; the others read by adding nothing, as was done before there were atomics. */
static long counted;

static void with_count_of_one(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			if (!thread)
				counted++;
			else
				sink[thread][0] += __sync_fetch_and_add(&counted, 0);
			work(20);
		}
}

/* Peterson's: sequentially consistent stores and loads alone. */
static atomic_int wants[2];
static atomic_int gives_way;

static void with_peterson(int thread)
{
	while (is_running())
		for (int i = 0; i < 10; i++) {
			atomic_store(&wants[thread], 1);
			atomic_store(&gives_way, thread);
			while (atomic_load(&wants[!thread]) && atomic_load(&gives_way) == thread)
				;
			touch_all();
			atomic_store(&wants[thread], 0);
		}
}

/* Pointers to what is never changed again. */
struct settings {
	long a, b, c, d;
};
static struct settings *_Atomic current;

static void with_published_pointer(int thread)
{
	long n = 0;

	while (is_running()) {
		for (int i = 0; i < 10; i++) {
			if (thread == 0) {
				struct settings *s = malloc(sizeof(*s));
				*s = (struct settings){ n, n + 1, n + 2, n + 3 };
				n++;
				/* The old one leaks: readers may still be at it. */
				atomic_store_explicit(&current, s, memory_order_release);
				work(20000);
				continue;
			}
			const struct settings *s = atomic_load_explicit(&current,
									memory_order_acquire);
			if (s)
				sink[thread][0] += s->a + s->b + s->c + s->d;
		}
	}
}

/* As nginx's threads tell whom to call: what they store has long been there. */
static long same_always = 7;

static NOINLINE void store_same(void)
{
	same_always = 7;
}

static NOINLINE long load_same(void)
{
	return same_always;
}

static void with_same_value(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++)
			thread ? store_same() : (void)(sink[0][0] += load_same());
}

/* Double-checked initialisation, again and again. */
static _Atomic(long *) lazy;

static void with_lazy_initialisation(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			long *p = atomic_load_explicit(&lazy, memory_order_acquire);
			if (!p) {
				pthread_mutex_lock(&mutex);
				p = atomic_load_explicit(&lazy, memory_order_relaxed);
				if (!p) {
					p = calloc(8, sizeof(long));
					p[3] = 7;
					atomic_store_explicit(&lazy, p, memory_order_release);
				}
				pthread_mutex_unlock(&mutex);
			}
			sink[thread][0] += p[3];
		}
}

static void with_disjoint_parts(int thread)
{
	char *mine = (char *)shared_block + thread;

	while (is_running())
		for (int i = 0; i < ROUND; i++)
			for (int k = 0; k < 16; k++)
				mine[k * 4]++;
}

static int pipes[2][2];

static void with_pipes(int thread)
{
	char byte = 0;

	for (int n = 0; is_running() || byte; n++) {
		if (thread || n)
			if (read(pipes[thread][0], &byte, 1) != 1 || byte)
				break;
		touch_all();
		byte = !is_running();
		if (write(pipes[!thread][1], &byte, 1) != 1)
			break;
	}
	byte = 1;
	if (write(pipes[!thread][1], &byte, 1) != 1)
		return;
}

static void *add_up(void *arg)
{
	long *part = arg;

	for (int i = 0; i < 1000; i++)
		part[i % 8] += i;
	return NULL;
}

static void with_short_threads(int thread)
{
	while (is_running()) {
		long *part = calloc(8, sizeof(long));
		pthread_t t;
		part[0] = 1;
		if (pthread_create(&t, NULL, add_up, part))
			break;
		pthread_join(t, NULL);
		for (int i = 0; i < 8; i++)
			sink[thread][0] += part[i];
		free(part);
	}
}

static void with_malloc(int thread)
{
	char *kept[16] = { NULL };

	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			size_t n = (size_t)(i * 37 % 500 + 8);
			free(kept[i % 16]);
			kept[i % 16] = malloc(n);
			memset(kept[i % 16], i, n);
		}
	for (int i = 0; i < 16; i++)
		free(kept[i]);
}

static void with_stdio(int thread)
{
	FILE *f = fopen("/dev/null", "w");
	char line[80];

	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			snprintf(line, sizeof(line), "thread %d line %d", thread, i);
			sink[thread][0] += (long)strlen(line);
			fprintf(f, "%s of %zu bytes\n", line, strlen(line));
		}
	fclose(f);
}

static __thread long private_word[16];

static void with_thread_locals(int thread)
{
	while (is_running())
		for (int i = 0; i < ROUND; i++)
			for (int k = 0; k < 16; k++)
				private_word[k] += k;
}

static char text[256];

static void with_memcpy_under_lock(int thread)
{
	char mine[sizeof(text)];

	while (is_running())
		for (int i = 0; i < ROUND; i++) {
			size_t n = sizeof(text) - (size_t)(i & 7);
			memset(mine, i, n);
			pthread_mutex_lock(&mutex);
			if (thread)
				memcpy(text, mine, n);
			else
				memcpy(mine, text, n);
			pthread_mutex_unlock(&mutex);
			sink[thread][0] += mine[i];
		}
}

static void prepare(void)
{
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	sem_init(&sem, 0, 1);
	pthread_barrier_init(&barrier, NULL, 2);
	spsc = calloc(1, sizeof(*spsc));
	for (size_t i = 0; i < 64; i++)
		atomic_init(&mpmc.cells[i].sequence, i);
	for (uint32_t i = 0; i < 128; i++)
		stack_push(i);
	if (pipe(pipes[0]) || pipe(pipes[1]))
		exit(1);
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{ "mutex", with_mutex, 3 },
		{ "spinlock", with_spinlock, 2 },
		{ "rwlock", with_rwlock, 3 },
		{ "semaphore", with_semaphore, 3 },
		{ "condition", with_condition, 3 },
		{ "barrier", with_barrier, 2 },
		{ "atomics", with_atomics, 3 },
		{ "release_acquire", with_release_acquire, 2 },
		{ "spsc_queue", with_spsc_queue, 2 },
		{ "mpmc_queue", with_mpmc_queue, 4 },
		{ "lock_free_stack", with_lock_free_stack, 3 },
		{ "seqlock", with_seqlock, 3 },
		{ "futex_lock", with_futex_lock, 3 },
		{ "ticket_lock", with_ticket_lock, 2 },
		{ "peterson", with_peterson, 2 },
		{ "store_that_lets_go", with_store_that_lets_go, 3 },
		{ "states", with_states, 3 },
		{ "assembler", with_assembler, 3 },
		{ "count_of_one", with_count_of_one, 2 },
		{ "published_pointer", with_published_pointer, 3 },
		{ "same_value", with_same_value, 2 },
		{ "lazy_initialisation", with_lazy_initialisation, 3 },
		{ "disjoint_parts", with_disjoint_parts, 4 },
		{ "pipes", with_pipes, 2 },
		{ "short_threads", with_short_threads, 3 },
		{ "malloc", with_malloc, 3 },
		{ "stdio", with_stdio, 3 },
		{ "thread_locals", with_thread_locals, 3 },
		{ "memcpy_under_lock", with_memcpy_under_lock, 2 },
	};

	prepare();
	return run_modes(argc, argv, modes, sizeof(modes) / sizeof(modes[0]));
}
