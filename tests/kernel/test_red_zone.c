/* SPDX-License-Identifier: MIT */
/* test_red_zone.c - a breakpoint on a nop does not change what a function keeps below its stack pointer. */
#include "crew.h"

#include <sys/utsname.h>

#define CALLS 300
#define NOP5 "0x0f,0x1f,0x44,0x00,0x00"

extern const char nop_alone[], nop_wide[], nop_jump[], nop_pair[], nop_before_loop[],
	nop_at_entry[];

/* A leaf with its variables below the stack pointer: volatile, so that each is read back from there. */
#define LEAF(name, code)                                                  \
	static NOINLINE uint64_t name(uint64_t a, uint64_t b)             \
	{                                                                 \
		volatile uint64_t v[4];                                   \
		v[0] = a;                                                 \
		v[1] = b;                                                 \
		v[2] = a + b;                                             \
		v[3] = a ^ b;                                             \
		uint64_t rounds = 3;                                      \
		__asm__ volatile(code : "+r"(rounds) : : "memory", "cc"); \
		return v[0] + v[1] + v[2] + v[3];                         \
	}
LEAF(leaf_alone, ".globl nop_alone\nnop_alone: .byte " NOP5)
LEAF(leaf_wide, ".globl nop_wide\nnop_wide: .byte 0x66,0x0f,0x1f,0x40,0x00")
LEAF(leaf_jump, ".globl nop_jump\nnop_jump: .byte 0xe9,0,0,0,0")
LEAF(leaf_pair, ".globl nop_pair\nnop_pair: .byte " NOP5 "\n.byte " NOP5)
/* What follows the nop runs three times a call. */
LEAF(leaf_loop, ".globl nop_before_loop\nnop_before_loop: .byte " NOP5 "\n1: dec %0\njnz 1b")

/* Its first instruction. */
extern uint64_t leaf_entry(uint64_t a, uint64_t b);
__asm__(".pushsection .text\n"
	".p2align 4\n"
	".type leaf_entry, @function\n"
	"leaf_entry: .cfi_startproc\n"
	".globl nop_at_entry\nnop_at_entry: .byte " NOP5 "\n"
	"lea (%rdi,%rsi,2), %rax\n"
	"lea (%rax,%rdi), %rax\n"
	"xor %rsi, %rdi\n"
	"add %rdi, %rax\n"
	"ret\n"
	".cfi_endproc\n.size leaf_entry, .-leaf_entry\n"
	".popsection\n");

typedef uint64_t (*leaf)(uint64_t, uint64_t);

static unsigned int wrong_of(leaf call)
{
	unsigned int wrong = 0;

	for (uint64_t i = 0; i < CALLS; i++)
		wrong += call(i, i % 7) != 2 * (i + i % 7) + (i ^ i % 7);
	return wrong;
}

static void open_red_zone(struct rig *rig)
{
	if (access("/sys/bus/event_source/devices/uprobe/type", R_OK))
		skip_because("uprobes (CONFIG_UPROBE_EVENTS)");
	if (geteuid())
		skip_because("root (CAP_SYS_ADMIN, for uprobes)");
	rig_open(rig, BY_BPF);
}

static int break_at(struct rig *rig, const char *place)
{
	uint64_t address = (uintptr_t)place;
	TRAPLINE_OPTS(event, opts);

	opts.arg = rig;
	return trapline_break_sites(rig->target, &address, 1, &opts, &rig->event);
}

/* Each call is one hit, at the address that was asked for. */
static void expect_unharmed(const char *place, leaf call)
{
	struct rig rig;

	open_red_zone(&rig);
	expect_ok(break_at(&rig, place));
	assert_int_equal(trapline_event_mechanism(rig.event), TRAPLINE_BY_UPROBE);
	assert_int_equal(wrong_of(call), 0);
	expect_hits(&rig, CALLS);
	assert_ptr_equal(rig.seen[0].ip, place);
	assert_ptr_equal(rig.seen[SEEN_MAX / 2].ip, place);
	rig_close(&rig);
}

static void a_nop_in_a_leaf_keeps_the_red_zone(void **state)
{
	expect_unharmed(nop_alone, leaf_alone);
	expect_unharmed(nop_wide, leaf_wide);
	expect_unharmed(nop_jump, leaf_jump);
	expect_unharmed(nop_pair, leaf_pair);
	expect_unharmed(nop_at_entry, leaf_entry);
}

static int is_before_6_18(void)
{
	struct utsname name;
	int major = 0;
	int minor = 0;

	uname(&name);
	sscanf(name.release, "%d.%d", &major, &minor);
	return major < 6 || (major == 6 && minor < 18);
}

/* No other instruction is executed exactly as often: a uprobe is refused where it would harm, and only there. */
static void a_nop_before_a_loop_is_not_moved(void **state)
{
	struct rig rig;
	char why[512];

	open_red_zone(&rig);
	int err = break_at(&rig, nop_before_loop);
	if (err < 0) {
		trapline_explain(err, why, sizeof(why));
		assert_int_equal(err, -EOPNOTSUPP);
		assert_non_null(strstr(why, "below the stack pointer"));
		assert_false(is_before_6_18());
	} else {
		assert_int_equal(wrong_of(leaf_loop), 0);
		expect_hits(&rig, CALLS);
		rig_close(&rig);
	}
}

static void a_hardware_breakpoint_serves_there(void **state)
{
	struct rig rig;
	TRAPLINE_OPTS(event, opts);

	open_red_zone(&rig);
	opts.arg = &rig;
	expect_ok(trapline_break(rig.target, (uintptr_t)nop_before_loop, &opts, &rig.event));
	assert_int_equal(wrong_of(leaf_loop), 0);
	expect_hits(&rig, CALLS);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_nop_in_a_leaf_keeps_the_red_zone),
		TEST(a_nop_before_a_loop_is_not_moved),
		TEST(a_hardware_breakpoint_serves_there),
	};

	return run_group(tests);
}
