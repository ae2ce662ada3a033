/* SPDX-License-Identifier: MIT */
/*
 * objects.c - objects that come and go, until killed; and other things that a watch meets.
 *
 *   objects LIFE_US [COUNT]	two threads make objects, take and drop references, and free them;
 *				the second makes none of its own, but drops references of the first's
 *   objects --kernel		read(2) writes counter words into kernel_word, 100 a second
 *   objects --crowd		twelve objects that live on, each begun and referred to again and again
 *   objects --many		adds 1 to each of many variables in turn, each by its own function
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct payload {
	long weight;
};

struct object {
	char name[16];
	int id;
	int refcount;
	struct payload *payload;
};

void take_reference(struct object *o);
void drop_reference(struct object *o);
void object_begin(int kind, struct object *o);
struct object *object_create(int id);
void object_free(struct object *o);

static struct object *volatile shared;
static unsigned int life_us;
static unsigned long limit;
unsigned long kernel_word;
unsigned int first_count;
unsigned long second_count;
unsigned char third_count;
unsigned short fourth_count;
unsigned long fifth_count;
int sixth_count;
struct {
	unsigned long word[8];
} big_counts;

__attribute__((noinline)) void take_reference(struct object *o)
{
	__atomic_add_fetch(&o->refcount, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline)) void drop_reference(struct object *o)
{
	__atomic_sub_fetch(&o->refcount, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline)) void object_begin(int kind, struct object *o)
{
	o->id += kind;
}

__attribute__((noinline)) struct object *object_create(int id)
{
	struct object *o = calloc(1, sizeof(*o));

	o->payload = calloc(1, sizeof(*o->payload));
	o->id = id;
	o->refcount = 1;
	return o;
}

__attribute__((noinline)) void object_free(struct object *o)
{
	free(o->payload);
	free(o);
}

/* After its end the memory is used for other things. */
__attribute__((noinline)) static void reuse(void)
{
	struct object *o = malloc(sizeof(*o));

	memset(o, 0x55, sizeof(*o));
	__asm__ volatile("" : : "r"(o) : "memory");
	free(o);
}

static void *other_thread(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "other");
	for (;;) {
		struct object *o = __atomic_exchange_n(&shared, NULL, __ATOMIC_ACQ_REL);
		if (o)
			drop_reference(o);
		usleep(200);
	}
	return NULL;
}

static void live(int id)
{
	struct object *o = object_create(id);

	object_begin(0, o);
	for (int i = 0; i < 4; i++) {
		usleep(life_us / 4);
		take_reference(o);
		o->payload->weight++;
		if (i % 2) {
			drop_reference(o);
			continue;
		}
		__atomic_store_n(&shared, o, __ATOMIC_RELEASE);
		while (__atomic_load_n(&shared, __ATOMIC_ACQUIRE))
			usleep(100);
	}
	usleep(1000); /* the other has dropped it */
	object_free(o);
	reuse();
}

static void *live_on(void *arg)
{
	for (int id = 1; !limit || (unsigned long)id <= limit; id++)
		live(id);
	return arg;
}

/* One that is unmapped and never freed. */
static void live_in_a_page(void)
{
	struct object *o = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	object_begin(1, o);
	usleep(50000);
	take_reference(o);
	munmap(o, 4096);
}

static void live_in_a_crowd(void)
{
	struct object *o[12];

	for (int i = 0; i < 12; i++)
		o[i] = object_create(i);
	for (;;) {
		for (int i = 0; i < 12; i++) {
			object_begin(0, o[i]);
			take_reference(o[i]);
			drop_reference(o[i]);
		}
		usleep(5000);
	}
}

static void read_into_word(void)
{
	int ends[2];

	if (pipe(ends))
		return;
	for (unsigned long value = 0x0101010101010101;; value += 0x0101010101010101) {
		if (write(ends[1], &value, sizeof(value)) != sizeof(value) ||
		    read(ends[0], &kernel_word, sizeof(kernel_word)) < 0)
			return;
		usleep(10000);
	}
}

#define BUMP(name)                                              \
	__attribute__((noinline)) static void bump_##name(void) \
	{                                                       \
		name##_count++;                                 \
	}
BUMP(first)
BUMP(second)
BUMP(third)
BUMP(fourth)
BUMP(fifth)
BUMP(sixth)

static void count_many(void)
{
	for (unsigned int i = 0;; i++) {
		bump_first();
		bump_second();
		bump_third();
		bump_fourth();
		bump_fifth();
		bump_sixth();
		big_counts.word[i % 8]++;
		usleep(500);
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;

	puts("ready");
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "--kernel"))
		read_into_word();
	if (argc > 1 && !strcmp(argv[1], "--crowd"))
		live_in_a_crowd();
	if (argc > 1 && !strcmp(argv[1], "--many"))
		count_many();
	life_us = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 20000;
	limit = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	if (pthread_create(&thread, NULL, other_thread, NULL))
		return 1;
	live_on(NULL);
	live_in_a_page();
	usleep(300000);
	return 0;
}
