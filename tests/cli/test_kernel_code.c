/* SPDX-License-Identifier: MIT */
/* test_kernel_code.c - what the kernel changes in its own code is in the log, or counted as lost. */
#include "../kernel/common.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <trapline/code_log.h>

#include "../../cli/code/kernel_code.h"
#include "../../src/base/clock.h"
#include "../../src/record/code_layout.h"

/* A key of the kernel that turns jumps on and off. */
#define SWITCH "/proc/sys/kernel/bpf_stats_enabled"
/* Of a kernel symbol, in fewer bytes than its record: so many do not fit into a ring. */
#define MANY_PROGRAMS 6000

static FILE *file;
static struct kernel_code *record;
static struct trapline_code_log *parsed;

static int begin(void **state)
{
	struct code_record format = { .head = { .time_ns = clock_now_ns() } };

	record = NULL;
	parsed = NULL;
	file = tmpfile();
	assert_non_null(file);
	code_open(&format.head, CODE_FORMAT);
	code_put(&format.head, CODE_MAGIC, 8);
	code_put32(&format.head, CODE_VERSION);
	code_put32(&format.head, CODE_CLOCK_MONOTONIC);
	code_close(&format.head);
	assert_int_equal(fwrite(&format, format.head.bytes, 1, file), 1);
	return 0;
}

static int end(void **state)
{
	trapline_code_log_close(parsed);
	fclose(file);
	return 0;
}

static void open_record(void)
{
	record = kernel_code_open(file);
	if (record)
		return;
	if (errno != EACCES && errno != EPERM)
		fail_msg("kernel_code_open: %s", strerror(errno));
	printf("# SKIP permission to observe the kernel\n");
	skip();
}

static void close_record(void)
{
	char path[64];

	assert_true(kernel_code_close(record));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(file));
	assert_int_equal(trapline_code_log_open(path, &parsed), 0);
}

/* The next entry of this kind; false: there is no other. */
static int next_entry(uint32_t kind, size_t *at, struct trapline_code_entry *entry)
{
	entry->size = sizeof(*entry);
	while (!trapline_code_log_entry(parsed, (*at)++, entry))
		if (entry->kind == kind)
			return 1;
	return 0;
}

static int load_program(void)
{
	struct bpf_insn code[] = { { .code = 0xb7 }, { .code = 0x95 } };
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)code,
		.insn_cnt = 2,
		.license = (uintptr_t) "GPL",
		.prog_name = "trapline_code",
	};

	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static void need_programs(void)
{
	int fd = load_program();

	if (fd >= 0) {
		close(fd);
		return;
	}
	printf("# SKIP permission to load BPF programs\n");
	skip();
}

static int is_ours(const struct trapline_code_entry *entry)
{
	return entry->name && strstr(entry->name, "trapline_code");
}

static void a_bpf_program_is_new_and_then_freed(void **state)
{
	struct trapline_code_span span = { .size = sizeof(span) };
	struct trapline_code_entry entry;
	uint64_t times[2] = { 0 };
	uint64_t address = 0;
	uint8_t byte = 0x5a;
	size_t at = 0;

	need_programs();
	open_record();
	close(load_program());
	usleep(100000); /* it is freed later */
	close_record();
	while (next_entry(TRAPLINE_CODE_ENTRY_KSYMBOL, &at, &entry))
		if (is_ours(&entry)) {
			assert_in_range(entry.stage, 0, 1);
			times[entry.stage] = entry.time_ns;
			address = entry.address;
			assert_true(entry.len > 0);
			assert_int_equal(entry.pid, 0);
			assert_int_equal(entry.tid, entry.stage ? entry.tid : gettid());
		}
	assert_true(times[0] && times[1] > times[0]);
	assert_int_equal(trapline_code_at(parsed, 0, address, times[0] + 1, &byte, 1, &span),
			 -ENODATA);
	assert_int_equal(byte, 0x5a);
	assert_int_equal(trapline_code_at(parsed, 0, address, times[0] - 1, &byte, 1, &span), 0);
	assert_int_equal(span.known, 0);
}

static void turn(char on)
{
	int fd = open(SWITCH, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	assert_int_equal(write(fd, &on, 1), 1);
	close(fd);
}

static int switch_is_on(void)
{
	char value = '0';
	int fd = open(SWITCH, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		assert_int_equal(read(fd, &value, 1), 1);
		close(fd);
	}
	return value == '1';
}

/* What the kernel has there now. False: it does not tell. */
static int read_kernel(uint64_t address, void *bytes, size_t n)
{
	int fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	int found = 0;
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (fd < 0)
		return 0;
	if (read(fd, &head, sizeof(head)) != sizeof(head))
		head.e_phnum = 0;
	for (int i = 0; !found && i < head.e_phnum; i++)
		if (pread(fd, &part, sizeof(part), (off_t)(head.e_phoff + i * sizeof(part))) ==
			    sizeof(part) &&
		    address - part.p_vaddr < part.p_filesz)
			found = pread(fd, bytes, n,
				      (off_t)(part.p_offset + address - part.p_vaddr)) ==
				(ssize_t)n;
	close(fd);
	return found;
}

struct kernel_site {
	uint64_t address;
	size_t len;
	uint8_t now[16];
	int is_known;
};

/* The places that the log has, with what is there now. */
static size_t read_sites(struct kernel_site *sites, size_t n)
{
	struct trapline_code_entry entry;
	size_t count = 0;
	size_t at = 0;

	while (count < n && next_entry(TRAPLINE_CODE_ENTRY_KERNEL_POKE, &at, &entry)) {
		if (entry.len > sizeof(sites->now) || !entry.before)
			continue;
		sites[count] = (struct kernel_site){ .address = entry.address, .len = entry.len };
		sites[count].is_known = read_kernel(entry.address, sites[count].now, entry.len);
		count++;
	}
	return count;
}

static void the_log_has_what_the_kernel_has(void **state)
{
	struct trapline_code_span span = { .size = sizeof(span) };
	struct trapline_code_entry entry;
	struct kernel_site sites[256];
	uint8_t bytes[16];
	size_t at = 0;

	if (switch_is_on()) {
		printf("# SKIP a switch of the kernel that nothing uses\n");
		skip();
	}
	open_record();
	turn('1');
	uint64_t between_ns = clock_now_ns();
	turn('0');
	uint64_t behind_ns = clock_now_ns();
	close_record();
	size_t count = read_sites(sites, 256);
	if (!count) {
		printf("# SKIP a kernel that reports what it changes in its code\n");
		skip();
	}
	size_t compared = 0;
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(trapline_code_at(parsed, 0, sites[i].address, behind_ns, bytes,
						  sites[i].len, &span),
				 0);
		assert_int_equal(span.known, sites[i].len);
		if (sites[i].is_known)
			assert_memory_equal(bytes, sites[i].now, sites[i].len);
		compared += sites[i].is_known != 0;
	}
	print_message("# %zu sites, %zu compared with the kernel's memory\n", count, compared);
	/* Between the two, what the first change wrote. */
	size_t changed = 0;
	while (next_entry(TRAPLINE_CODE_ENTRY_KERNEL_POKE, &at, &entry)) {
		if (!entry.before || entry.time_ns > between_ns || entry.len > sizeof(bytes))
			continue;
		int err = trapline_code_at(parsed, 0, entry.address, entry.time_ns, bytes,
					   entry.len, &span);
		assert_int_equal(err, 0);
		assert_memory_equal(bytes, entry.after, entry.len);
		err = trapline_code_at(parsed, 0, entry.address, entry.time_ns - 1, bytes,
				       entry.len, &span);
		assert_int_equal(err, 0);
		assert_memory_equal(bytes, entry.before, entry.len);
		changed++;
	}
	assert_true(changed > 0);
}

static void what_does_not_fit_is_counted(void **state)
{
	struct trapline_code_entry entry;
	uint8_t byte;
	size_t at = 0;
	size_t lost = 0;
	size_t seen = 0;

	need_programs();
	open_record();
	for (int i = 0; i < MANY_PROGRAMS; i++)
		close(load_program());
	usleep(300000);
	uint64_t time_ns = clock_now_ns();
	close_record();
	while (next_entry(TRAPLINE_CODE_ENTRY_LOST, &at, &entry))
		lost += entry.len;
	at = 0;
	while (next_entry(TRAPLINE_CODE_ENTRY_KSYMBOL, &at, &entry))
		seen += is_ours(&entry) != 0;
	print_message("# %zu seen, %zu lost\n", seen, lost);
	assert_true(seen < 2 * (size_t)MANY_PROGRAMS && lost > 0);
	/* Before Linux 6.0 the kernel does not count them. */
	if (lost > 2)
		assert_true(seen + lost >= 2 * (size_t)MANY_PROGRAMS);
	assert_int_equal(trapline_code_at(parsed, 0, 0xffffffff81000000u, time_ns - 1, &byte, 1,
					  NULL),
			 -ENODATA);
}

static void without_permission_it_is_refused(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(77);
		_exit(kernel_code_open(file) ? 1 : errno == EACCES || errno == EPERM ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("# SKIP permission to become another user\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_bpf_program_is_new_and_then_freed, begin, end),
		cmocka_unit_test_setup_teardown(the_log_has_what_the_kernel_has, begin, end),
		cmocka_unit_test_setup_teardown(what_does_not_fit_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(without_permission_it_is_refused, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
