/* SPDX-License-Identifier: MIT */
/*
 * test_traps_many.c - 10,000 int3 at once in libc, libz and this program, with 16 threads in them.
 *
 * The oracle is the processor's single step: a child runs the work under ptrace, and how often
 * each instruction ran there is how often each trap must be passed in every thread. Nothing in
 * the work depends on where it runs: buffers and stack have the same alignment, memory comes
 * from a buffer.
 */
#include "sites.h"

#include <link.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <zlib.h>

#define SITES_MAX 10000
#define THREADS 16
#define TEXT_BYTES 700
#define STACK_BYTES (256u << 10)
#define SLOTS (1u << 17)

/* All that a run of the work touches, page-aligned. */
struct room {
	uint8_t stack[STACK_BYTES];
	uint8_t heap[160 << 10];
	char text[TEXT_BYTES + 100];
	uint8_t packed[4096];
	char unpacked[TEXT_BYTES + 100];
	uint32_t numbers[64];
	uint32_t mixed[8];
	size_t heap_used;
	uint64_t result;
} __attribute__((aligned(4096)));

/* ---- the work ---- */

static uint32_t rotate(uint32_t x, int by)
{
	return x << by | x >> (32 - by);
}

#define ROUND(i)                                                \
	a += rotate(b ^ (c + 0x9e3779b9u * (i)), (i) % 30 + 1); \
	if (a & 4)                                              \
		d ^= a * 0x85ebca6bu;                           \
	else                                                    \
		d += rotate(c, 7);                              \
	b = rotate(b + (a & d), (i) % 13 + 2) ^ c;              \
	c -= d ^ (0xc2b2ae35u + (i));
#define ROUNDS_8(i)                                                                \
	ROUND(i)                                                                   \
	ROUND((i) + 1) ROUND((i) + 2) ROUND((i) + 3) ROUND((i) + 4) ROUND((i) + 5) \
		ROUND((i) + 6) ROUND((i) + 7)
#define ROUNDS_64(i)                                                               \
	ROUNDS_8(i)                                                                \
	ROUNDS_8((i) + 8) ROUNDS_8((i) + 16) ROUNDS_8((i) + 24) ROUNDS_8((i) + 32) \
		ROUNDS_8((i) + 40) ROUNDS_8((i) + 48) ROUNDS_8((i) + 56)

__attribute__((noipa)) static void mix(uint32_t *state)
{
	uint32_t a = state[0];
	uint32_t b = state[1];
	uint32_t c = state[2];
	uint32_t d = state[3];

	ROUNDS_64(0)
	ROUNDS_64(64) ROUNDS_64(128) ROUNDS_64(192) ROUNDS_64(256) ROUNDS_64(320)
		state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void *take(void *opaque, unsigned int n, unsigned int size)
{
	struct room *room = opaque;
	void *p = room->heap + room->heap_used;

	room->heap_used += (n * size + 63) & ~63u;
	return p;
}

static void give(void *opaque, void *p)
{
}

static void pack(struct room *room)
{
	z_stream out = { .zalloc = take, .zfree = give, .opaque = room };
	z_stream in = { .zalloc = take, .zfree = give, .opaque = room };
	size_t n = strlen(room->text);

	deflateInit2(&out, 6, Z_DEFLATED, 9, 1, Z_DEFAULT_STRATEGY);
	out.next_in = (uint8_t *)room->text;
	out.avail_in = (unsigned int)n;
	out.next_out = room->packed;
	out.avail_out = sizeof(room->packed);
	deflate(&out, Z_FINISH);
	inflateInit2(&in, 9);
	in.next_in = room->packed;
	in.avail_in = (unsigned int)out.total_out;
	in.next_out = (uint8_t *)room->unpacked;
	in.avail_out = sizeof(room->unpacked);
	inflate(&in, Z_FINISH);
	deflateEnd(&out);
	inflateEnd(&in);
}

static void fill_text(struct room *room)
{
	char *at = room->text;
	char *end = room->text + TEXT_BYTES;
	char number[64];

	for (int i = 0; at + 90 < end; i++) {
		int n = snprintf(at, (size_t)(end - at),
				 "%d %#x %-8s|%+.3e %Lg %5.2f%% %lld %c %o; ", i, i * 77,
				 i & 1 ? "odd" : "even", 1.5e10 / (i + 1),
				 (long double)i / 7, i * 0.37, (long long)i << 40,
				 'a' + i % 26, i);
		at += n;
	}
	snprintf(number, sizeof(number), "%.17g %a", strtod("3.14159265358979e-7", NULL),
		 strtod("0x1.8p+40", NULL));
	room->result += strtoull(number, NULL, 16) + strtoul("123456", NULL, 10);
}

static void work(struct room *room)
{
	char *found;

	room->result = 0;
	room->heap_used = 0;
	for (uint32_t i = 0; i < 8; i++)
		room->mixed[i] = i * 77;
	mix(room->mixed);
	for (uint32_t i = 0; i < 64; i++)
		room->numbers[i] = (i + 3) * 2654435761u ^ room->mixed[i % 4];
	qsort(room->numbers, 64, sizeof(room->numbers[0]), compare);
	fill_text(room);
	found = strstr(room->text, "odd");
	room->result += found ? (uint64_t)(found - room->text) : 0;
	found = memchr(room->text, '%', TEXT_BYTES);
	room->result += found ? (uint64_t)(found - room->text) : 0;
	pack(room);
	room->result ^= (uint64_t)strcmp(room->text, room->unpacked) << 60;
	room->result ^= crc32(0, (uint8_t *)room->unpacked, TEXT_BYTES);
	room->result ^= (uint64_t)adler32(1, room->packed, 200) << 24;
	room->result += room->numbers[17];
}

__attribute__((noipa)) static void work_begins(void)
{
	__asm__ volatile("");
}

__attribute__((noipa)) static void work_ends(void)
{
	__asm__ volatile("");
}

static void work_between(struct room *room)
{
	work_begins();
	work(room);
	work_ends();
}

/* On the room's own stack, so that alignment is the same everywhere. */
static void work_in(struct room *room)
{
	void *top = room->stack + STACK_BYTES;

	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "mov %[top], %%rsp\n\t"
			 "call *%[function]\n\t"
			 "mov %%rbx, %%rsp"
			 : "+D"(room)
			 : [top] "r"(top), [function] "r"(work_between)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11",
			   "memory", "cc");
}

/* ---- the oracle ---- */

static struct pass {
	uint64_t pc;
	uint64_t count;
} passes[SLOTS];

static struct pass *pass_of(uint64_t pc)
{
	size_t at = pc * 0x9e3779b97f4a7c15u >> 47;

	while (passes[at].pc && passes[at].pc != pc)
		at = (at + 1) % SLOTS;
	return &passes[at];
}

static struct room *map_room(void)
{
	return mmap(NULL, sizeof(struct room), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Steps the child through the work. Number of instructions. */
static uint64_t step_through(void)
{
	struct user_regs_struct regs;
	uint64_t steps = 0;
	bool inside = false;
	int status;

	fflush(NULL);
	pid_t child = fork();
	if (!child) {
		struct room *room = map_room();

		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		work_in(room);
		_exit(0);
	}
	waitpid(child, &status, 0);
	while (WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GETREGS, child, NULL, &regs))
			break;
		inside |= regs.rip == ADDR(work_begins);
		if (regs.rip == ADDR(work_ends))
			break;
		if (inside) {
			struct pass *pass = pass_of(regs.rip);

			pass->pc = regs.rip;
			pass->count++;
			steps++;
		}
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL))
			break;
		waitpid(child, &status, 0);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return steps;
}

/* ---- where the traps go ---- */

struct range {
	uint64_t from;
	uint64_t to;
	const char *name;
	size_t sites;
};
static struct range ranges[8];
static size_t range_count;

static int note_text(struct dl_phdr_info *info, size_t size, void *data)
{
	static bool seen_program;
	const char *name = strrchr(info->dlpi_name, '/');

	if (seen_program &&
	    !(name && (!strncmp(name, "/libc.so", 8) || !strncmp(name, "/libz.so", 8))))
		return 0;
	seen_program = true;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || range_count == 8)
			continue;
		ranges[range_count++] =
			(struct range){ info->dlpi_addr + ph->p_vaddr,
					info->dlpi_addr + ph->p_vaddr + ph->p_memsz,
					name ? name + 1 : "this program", 0 };
	}
	return 0;
}

static struct range *range_of(uint64_t pc)
{
	for (size_t i = 0; i < range_count; i++)
		if (pc >= ranges[i].from && pc < ranges[i].to)
			return &ranges[i];
	return NULL;
}

/* The step counts each round of these, a trap only the first. */
static bool is_repeated(uint64_t pc)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)pc;

	int rex = (at[1] & 0xf0) == 0x40;

	return (at[0] == 0xf3 || at[0] == 0xf2) && (at[1 + rex] & 0xf0) == 0xa0;
}

static uint64_t addresses[SITES_MAX];
static uint64_t expected[SITES_MAX];

static size_t choose_sites(uint64_t *random)
{
	size_t n = 0;
	size_t start = next_random(random) % SLOTS;

	dl_iterate_phdr(note_text, NULL);
	for (size_t i = 0; i < SLOTS && n < SITES_MAX; i++) {
		const struct pass *pass = &passes[(start + i) % SLOTS];
		struct range *range = pass->pc ? range_of(pass->pc) : NULL;

		if (!range || is_repeated(pass->pc))
			continue;
		range->sites++;
		addresses[n] = pass->pc;
		expected[n++] = pass->count;
	}
	return n;
}

/* ---- threads ---- */

static uint64_t seen_by_callback[SITES_MAX];
static uint32_t go;   /* which round */
static uint32_t done; /* threads that have finished it */
static bool over;
static struct room *rooms[THREADS];

static void count(const struct trapline_trap_hit *hit)
{
	__atomic_fetch_add(&seen_by_callback[hit->index], 1, __ATOMIC_RELAXED);
}

/* No function of libc between the rounds: it would pass traps. */
static void pause_here(void)
{
	__asm__ volatile("syscall"
			 :
			 : "a"(24 /* sched_yield */)
			 : "rcx", "r11", "memory");
}

static void *run(void *arg)
{
	struct room *room = arg;

	for (uint32_t round = 1; round <= 2; round++) {
		while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) < round)
			pause_here();
		work_in(room);
		__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		pause_here();
	return NULL;
}

static void run_round(uint32_t round)
{
	__atomic_store_n(&go, round, __ATOMIC_RELEASE);
	while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < round * THREADS)
		pause_here();
}

/* Says nothing once the traps are there: printf() would pass some. */
static int set_what_can_be(size_t *n, size_t *refused, struct trapline_traps **out)
{
	TRAPLINE_OPTS(traps, opts);
	size_t failed = 0;
	int err;

	opts.callback = count;
	opts.failed = &failed;
	while ((err = trapline_traps_set(addresses, *n, &opts, out)) == -EOPNOTSUPP) {
		if ((*refused)++ < 3)
			fail_with(err, "# left out");
		(*n)--;
		addresses[failed] = addresses[*n];
		expected[failed] = expected[*n];
	}
	return err;
}

static void ten_thousand_traps_change_nothing_and_count_every_pass(void **state)
{
	static uint64_t hits[SITES_MAX];
	uint64_t random = seed_from_environment();
	struct room *plain = map_room();
	struct trapline_traps *traps;
	pthread_t threads[THREADS];

	/* The first run binds symbols. */
	work_in(plain);
	work_in(plain);
	assert_int_equal(strcmp(plain->text, plain->unpacked), 0);
	uint64_t steps = step_through();
	size_t n = choose_sites(&random);
	assert_true(n >= 1000);
	for (int i = 0; i < THREADS; i++) {
		rooms[i] = map_room();
		pthread_create(&threads[i], NULL, run, rooms[i]);
	}
	size_t refused = 0;
	int err = set_what_can_be(&n, &refused, &traps);
	if (err)
		fail_with(err, "traps");
	assert_int_equal(err, 0);
	run_round(1);
	/* Read before anything of libc runs here. */
	for (size_t i = 0; i < n; i++)
		trapline_traps_hits(traps, i, NULL, &hits[i]);
	err = trapline_traps_remove(traps);
	run_round(2);
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(err, 0);

	uint64_t total = 0;
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++) {
		total += hits[i];
		if (hits[i] == expected[i] * THREADS && seen_by_callback[i] >= hits[i])
			continue;
		if (wrong++ < 10)
			print_error("%s+%#llx: %llu passes, expected %d * %llu\n",
				    range_of(addresses[i])->name,
				    (unsigned long long)(addresses[i] -
							 range_of(addresses[i])->from),
				    (unsigned long long)hits[i], THREADS,
				    (unsigned long long)expected[i]);
	}
	print_message("# %zu traps, %zu refused", n, refused);
	for (size_t i = 0; i < range_count; i++)
		print_message(", %zu in %s", ranges[i].sites, ranges[i].name);
	print_message("; %llu instructions a run, %llu passes\n",
		      (unsigned long long)steps, (unsigned long long)total);
	assert_int_equal(wrong, 0);
	assert_int_equal(n, SITES_MAX);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(rooms[i]->result, plain->result);
		assert_memory_equal(rooms[i]->text, plain->text, sizeof(plain->text));
		assert_memory_equal(rooms[i]->packed, plain->packed,
				    sizeof(plain->packed));
		assert_memory_equal(rooms[i]->unpacked, plain->unpacked,
				    sizeof(plain->unpacked));
		assert_memory_equal(rooms[i]->numbers, plain->numbers,
				    sizeof(plain->numbers));
		assert_memory_equal(rooms[i]->mixed, plain->mixed, sizeof(plain->mixed));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_traps_change_nothing_and_count_every_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
