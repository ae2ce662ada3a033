/* SPDX-License-Identifier: MIT */
/*
 * test_poke_filters.c - poking where seccomp, PR_SET_MDWE or mseal() forbid this or that: another
 * way is taken, or the reason is told and nothing is changed.
 */
#include "beside.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif
#define NR_MSEAL 462

/* ---- filters and seals ---- */

static void refuse_call(int nr, int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };

	NEED(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		SKIP_CHILD("no seccomp filters here");
}

static void expect_reason(int err, int expected, const char *word)
{
	char why[400] = "";

	trapline_explain(err, why, sizeof(why));
	NEED(err == expected);
	NEED(strstr(why, word));
}

/* Whether the kernel writes protected text for anybody: some do so for a tracer only, or never. */
static bool is_written_plainly(void)
{
	int fd = open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC);
	bool is = pwrite(fd, code, 1, (off_t)ADDR(code)) == 1;

	close(fd);
	return is;
}

static void filter_writers(void)
{
	make_all(false);
	refuse_call(SYS_mprotect, EPERM);
	if (!is_written_plainly()) {
		/* A filter may kill for ptrace(): the helper process is not tried. */
		expect_reason(flip(0, COUNT, 0, 0), -EACCES, "seccomp");
		check_all();
		return;
	}
	NEED_OK(flip(0, COUNT, 0, 0));
	check_all();
	NEED(read_stats().by_mem == COUNT);
	NEED(flip(0, COUNT, 0, TRAPLINE_WRITE_MPROTECT) == -EACCES);
	refuse_call(SYS_pwrite64, EPERM);
	expect_reason(flip(0, COUNT, 0, 0), -EACCES, "seccomp");
	check_all();
}

static void filtered_writers_are_passed_over_and_named(void **state)
{
	expect_success(filter_writers);
}

static void filter_proc(void)
{
	make_all(false);
	refuse_call(SYS_openat, EACCES);
	/* Neither /proc nor its maps: what the text's protection was cannot be known. */
	expect_reason(flip(0, COUNT, 0, 0), -EACCES, "cannot be written");
	refuse_call(SYS_process_vm_readv, EPERM);
	NEED(flip(0, COUNT, 0, 0) < 0);
	check_all();
}

static void without_proc_nothing_is_written(void **state)
{
	expect_success(filter_proc);
}

static void filter_reading(void)
{
	make_all(false);
	refuse_call(SYS_process_vm_readv, EPERM);
	flip_beside(NULL, 0, 0);
}

static void text_is_read_without_process_vm_readv(void **state)
{
	expect_success(filter_reading);
}

static void foreign_int3_unread(void)
{
	make_all(false);
	NEED_OK(flip(0, COUNT, 0, 0));
	refuse_call(SYS_process_vm_readv, EPERM);
	__asm__ volatile("int3");
}

static void a_foreign_int3_is_told_without_process_vm_readv(void **state)
{
	char text[700];
	int status = run_child(foreign_int3_unread, text, sizeof(text));

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTRAP)
		fail_msg("status %#x: %s", status, text);
}

static void filter_membarrier(void)
{
	refuse_call(SYS_membarrier, EPERM);
	struct trapline_poke_site change = { ADDR(&filter_membarrier), "\x55", "\x90",
					     1 };

	expect_reason(trapline_poke(&change, 1, NULL), -EOPNOTSUPP, "membarrier");
}

static void filter_membarrier_later(void)
{
	make_all(false);
	NEED_OK(flip(0, COUNT, 0, 0));
	refuse_call(SYS_membarrier, EPERM);
	expect_reason(flip(0, COUNT, 0, 0), -EOPNOTSUPP, "stopped working");
	NEED(read_stats().rolled_back == 1);
	check_all();
}

static void no_membarrier_is_said(void **state)
{
	expect_success(filter_membarrier);
	expect_success(filter_membarrier_later);
}

static void take_writers_away(const struct trapline_code_record *record)
{
	if (record->stage != TRAPLINE_CODE_TRAP)
		return;
	refuse_call(SYS_pwrite64, EPERM);
	refuse_call(SYS_mprotect, EPERM);
}

/* The text becomes read-only between the first int3 and the last byte. */
static void strand(void)
{
	if (!is_text_forced())
		SKIP_CHILD("a kernel that writes text for a tracer");
	make_all(false);
	NEED_OK(trapline_log_code(take_writers_away, NULL));
	int err = flip(0, COUNT, 0, 0);
	NEED(err == -EIO);
	NEED(read_stats().stranded == COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		NEED(sites[i].code[0] == 0xcc);
		sites[i].now = 1;
	}
	check_all();
	check_all();
}

static void stranded_sites_act_as_the_new_bytes(void **state)
{
	expect_success(strand);
}

static void refuse_exec_gain(void)
{
	struct trapline_traps *traps;
	uint64_t address;

	if (!is_text_forced())
		SKIP_CHILD("a kernel that writes text for a tracer");
	make_all(true);
	uint8_t *aliased = code;
	make_all(false);
	if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0))
		SKIP_CHILD("PR_SET_MDWE needs Linux 6.3");
	NEED_OK(flip(0, COUNT, 0, 0));
	check_all();
	NEED(flip(0, COUNT, 0, TRAPLINE_WRITE_MPROTECT) == -EACCES);
	/* An instruction that is copied: memory for it must still be had. */
	NEED(sites[0].now == 1);
	NEED_OK(flip(0, COUNT, 0, 0));
	NEED_OK(flip(0, COUNT, 0, 0));
	address = ADDR(sites[0].code);
	NEED_OK(trapline_traps_set(&address, 1, NULL, &traps));
	check_all();
	NEED_OK(trapline_traps_remove(traps));
	NEED_OK(trapline_code_write(aliased, "\xc3", 1));
}

static void refused_exec_gain_leaves_a_writer(void **state)
{
	expect_success(refuse_exec_gain);
}

static void seal(void)
{
	if (!is_text_forced())
		SKIP_CHILD("a kernel that writes text for a tracer");
	make_all(false);
	if (syscall(NR_MSEAL, code, CODE_BYTES & ~4095ul, 0ul))
		SKIP_CHILD("mseal() needs Linux 6.10");
	NEED(flip(0, COUNT, 0, TRAPLINE_WRITE_MPROTECT) == -EACCES);
	flip_beside(NULL, 0, 0);
}

static void sealed_text_can_be_changed_still(void **state)
{
	expect_success(seal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filtered_writers_are_passed_over_and_named),
		cmocka_unit_test(without_proc_nothing_is_written),
		cmocka_unit_test(text_is_read_without_process_vm_readv),
		cmocka_unit_test(a_foreign_int3_is_told_without_process_vm_readv),
		cmocka_unit_test(no_membarrier_is_said),
		cmocka_unit_test(stranded_sites_act_as_the_new_bytes),
		cmocka_unit_test(refused_exec_gain_leaves_a_writer),
		cmocka_unit_test(sealed_text_can_be_changed_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
