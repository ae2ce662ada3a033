/* SPDX-License-Identifier: MIT */
/* code.c - code that changes, that the linker folds, that comes and goes. Its folder has plugin.so. See guest.h. */
#include "guest.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

/* ---- a static branch: a nop of 5 bytes in a leaf function that keeps its array below the stack pointer ---- */

static volatile unsigned long branch_taken;

static inline __attribute__((always_inline)) int is_enabled(void)
{
	__asm__ goto(".globl here_is_nop5\nhere_is_nop5:\n\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00" ::: "memory" : on);
	return 0;
on:
	return 1;
}

__attribute__((noinline)) static uint64_t sum_in_leaf(uint64_t a, uint64_t b)
{
	volatile uint64_t v[4];

	v[0] = a;
	v[1] = b;
	v[2] = a + b;
	v[3] = a ^ b;
	if (is_enabled())
		branch_taken++;
	return v[0] + v[1] + v[2] + v[3];
}

static const char *use_red_zone(long arg)
{
	(void)arg;
	for (uint64_t i = 0; i < 300; i++)
		EXPECT(sum_in_leaf(i * 3, i % 7) == 2 * (i * 3 + i % 7) + ((i * 3) ^ (i % 7)),
		       "a leaf function computes a wrong sum");
	return NULL;
}

/* ---- code that is written while it runs ---- */

static uint8_t *room;

static int map_room(long arg)
{
	(void)arg;
	room = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return room == MAP_FAILED ? 77 : 0;
}

/* mov $n, %eax; ret */
static void put_constant(uint8_t *at, uint32_t n)
{
	at[0] = 0xb8;
	memcpy(at + 1, &n, 4);
	at[5] = 0xc3;
}

static const char *write_code(long arg)
{
	(void)arg;
	for (uint32_t i = 0; i < 200; i++) {
		put_constant(room, i);
		step(i);
		const uint32_t got = ((uint32_t(*)(void))(void *)room)();

		EXPECT(got == i, "new code returned %u, not %u", got, i);
	}
	return NULL;
}

/* mov %edi, 1(%rip): the constant of the next instruction; mov $0, %eax; ret */
static const char *write_ahead(long arg)
{
	static const uint8_t code[] = { 0x89, 0x3d, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3 };

	(void)arg;
	memcpy(room, code, sizeof(code));
	for (uint32_t i = 1; i < 200; i++) {
		step(i);
		const uint32_t got = ((uint32_t(*)(uint32_t))(void *)room)(i);

		EXPECT(got == i, "code that changed the next instruction returned %u, not %u", got, i);
	}
	return NULL;
}

/* Other code at the same address, by another mapping. */
static const char *remap_code(long arg)
{
	(void)arg;
	for (uint32_t i = 0; i < 20; i++) {
		uint8_t *new = mmap(room, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		EXPECT(new == room, "mmap(): %s", strerror(errno));
		put_constant(room, i);
		mprotect(room, 4096, PROT_READ | PROT_EXEC);
		step(i);
		const uint32_t got = ((uint32_t(*)(void))(void *)room)();

		EXPECT(got == i, "mapped code returned %u, not %u", got, i);
	}
	return NULL;
}

/* ---- folded code: the linker makes one of both where it can ---- */

long fold_a(long x);
long fold_b(long x);

__attribute__((noinline)) long fold_a(long x)
{
	__asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop");
	return x * 3 + 7;
}

__attribute__((noinline)) long fold_b(long x)
{
	__asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop");
	return x * 3 + 7;
}

volatile long patched; /* fold_fix.c sets it in its fold_a() */

/* What a tool does to one function is not done to the other, although both may be the same bytes. */
static const char *call_folded(long arg)
{
	(void)arg;
	for (long i = 0; i < 100; i++) {
		patched = 0;
		EXPECT(fold_b(i) == i * 3 + 7, "a function returns another value");
		EXPECT(!patched, "the patch of a function changed another one");
		counter += fold_a(i);
	}
	return NULL;
}

/* ---- objects that come and go ---- */

static char plugin[4096];

static int find_plugin(long arg)
{
	ssize_t n = readlink("/proc/self/exe", plugin, sizeof(plugin) - 20);

	(void)arg;
	if (n < 0)
		return 77;
	plugin[n] = 0;
	strcpy(strrchr(plugin, '/') + 1, "guest_plugin.so");
	return access(plugin, R_OK) ? 77 : 0;
}

static const char *use_plugin(void *object, long i)
{
	EXPECT(object, "dlopen(): %s", dlerror());
	long (*calculate)(long) = (long (*)(long))dlsym(object, "plugin_step");

	EXPECT(calculate, "dlsym(): %s", dlerror());
	EXPECT(calculate(i) == i + 3, "a plugin returns another value");
	EXPECT(!dlclose(object), "dlclose(): %s", dlerror());
	EXPECT(!dlopen(plugin, RTLD_NOLOAD | RTLD_NOW), "an object stays loaded");
	return NULL;
}

static const char *load(long arg)
{
	const char *what = NULL;

	(void)arg;
	for (long i = 0; i < 5 && !what; i++)
		what = use_plugin(dlopen(plugin, RTLD_NOW), i);
	return what;
}

static const char *load_apart(long arg)
{
	void *object = dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW);

	(void)arg;
	EXPECT(object, "dlmopen(): %s", dlerror());
	long (*calculate)(long) = (long (*)(long))dlsym(object, "plugin_step");

	EXPECT(calculate && calculate(1) == 4, "a plugin returns another value");
	EXPECT(!dlclose(object), "dlclose(): %s", dlerror());
	return NULL;
}

/* No object has the name of a descriptor: a debugger that opens it opens one of its own. */
static int see_name(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (!strncmp(info->dlpi_name, "/proc/", 6))
		wrong("the loader names '%s'", info->dlpi_name);
	return 0;
}

static const char *see_names(long arg)
{
	(void)arg;
	dl_iterate_phdr(see_name, NULL);
	work();
	return NULL;
}

/* ---- memory that the program counts on ---- */

static const char *grow_break(long arg)
{
	char *old = sbrk(0);

	(void)arg;
	work();
	char *new = sbrk(65536);

	EXPECT(new != (void *)-1 && new >= old, "sbrk(): %s", strerror(errno));
	memset(new, 1, 65536);
	return NULL;
}

static const char *map_fixed(long arg)
{
	(void)arg;
	for (uintptr_t at = 0x10000000; at < 0x20000000; at += 0x4000000) {
		void *p = mmap((void *)at, 65536, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		EXPECT(p == (void *)at, "mmap() at a fixed address: %s", strerror(errno));
		munmap(p, 65536);
	}
	work();
	return NULL;
}

const struct behaviour behaviours[] = {
	{ "nop5_red_zone", use_red_zone, 0, 0, NULL, NULL },
	{ "writes_code", write_code, 0, 0, map_room, NULL },
	{ "writes_code_ahead", write_ahead, 0, 0, map_room, NULL },
	{ "remaps_code", remap_code, 0, 0, map_room, NULL },
	{ "folded", call_folded, 0, 0, NULL, NULL },
	{ "dlopen", load, 0, 0, find_plugin, NULL },
	{ "dlmopen", load_apart, 0, 0, find_plugin, NULL },
	{ "link_map", see_names, 0, 0, NULL, NULL },
	{ "sbrk", grow_break, 0, ALONE, NULL, NULL },
	{ "map_fixed", map_fixed, 0, 0, NULL, NULL },
	{},
};
