/* SPDX-License-Identifier: MIT */
/*
 * agent_start.c - see agent_start.h.
 *
 * The loader preloads the agent into each program that the command runs, except static,
 * 32-bit and setuid programs. The command itself is refused then; uncovered.h finds such
 * children.
 */
#include "cli/launch/agent_start.h"
#include "cli/launch/process_room.h"

#include "base/clock.h"
#include "cli/inject/inject.h"
#include "cli/inject/inject_file.h"
#include "cli/launch/inherited.h"
#include "cli/launch/preloadable.h"
#include "cli/launch/program.h"
#include "cli/launch/target_lock.h"
#include "cli/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define OPTION_BYTES 256
#define AGENT "libtrapline-agent.so"
#define ATTACH_NS 5000000000u /* an attach on a busy machine */
#define ATTACH_LATE_NS 1000000000u

/* A size that is sealed: a process that cuts the file would kill all others that read it. */
static int make_file(const char *name, size_t bytes, int *fd)
{
	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return *fd < 0 || ftruncate(*fd, (off_t)bytes) ||
			       fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ?
		       -errno :
		       0;
}

static int map_file(int fd, void *at, size_t bytes, void **out)
{
	*out = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
	return *out == MAP_FAILED ? -errno : 0;
}

/* Mapped first: from then on it cannot be mapped for writing. */
static int map_head(struct agent_region *region)
{
	void *head;
	int err = map_file(region->head_fd, region->head, SHARE_HEAD_BYTES, &head);

	if (!err && fcntl(region->head_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		err = -errno;
	return err;
}

static int open_region(const char *name, uint64_t magic, size_t bytes, struct agent_region *out)
{
	struct agent_region region = AGENT_REGION_NONE;
	void *memory = NULL;
	int err = make_file(name, SHARE_HEAD_BYTES, &region.head_fd);

	if (!err)
		err = make_file(name, bytes, &region.data_fd);
	if (!err)
		err = map_file(region.data_fd, NULL, bytes, &memory);
	if (err)
		goto out_close;
	region.head = memory;
	region.bytes = bytes;
	err = map_head(&region);
	if (!err && getrandom(region.head->nonce, sizeof(region.head->nonce), 0) < 0)
		err = -errno;
	if (err)
		goto out_close;
	region.head->magic = magic;
	region.head->bytes = bytes;
	region.head->observer = getpid();
	*out = region;
	return 0;
out_close:
	agent_region_close(&region);
	return err;
}

void agent_region_close(struct agent_region *region)
{
	if (region->head)
		munmap(region->head, region->bytes);
	if (region->head_fd >= 0)
		close(region->head_fd);
	if (region->data_fd >= 0)
		close(region->data_fd);
	*region = (struct agent_region)AGENT_REGION_NONE;
}

int agent_region_open(const char *command, const char *name, uint64_t magic, size_t bytes,
		      struct agent_region *out)
{
	const int err = open_region(name, magic, bytes, out);

	return err ? cli_wrong(command, "cannot share memory with the program: %s%s",
			       strerror(-err),
			       err == -EFBIG ? "; raise the limit of file sizes (ulimit -f)" : "") :
		     CLI_OK;
}

/* "option=PID,HEAD,DATA,NONCE", as the target finds the memory (agent/share.h). */
static void option_of(const char *option, const struct agent_region *region, char *text,
		      size_t size)
{
	const uint64_t *nonce = region->head->nonce;

	snprintf(text, size, "%s=%d,%d,%d,%016" PRIx64 "%016" PRIx64, option, getpid(),
		 region->head_fd, region->data_fd, nonce[0], nonce[1]);
}

#ifdef __x86_64__
static const bool is_built = true;
#else
static const bool is_built = false;
#endif

bool agent_is_built(void)
{
	return is_built;
}

int agent_is_for_this(const char *command)
{
	return is_built ? CLI_OK :
			  cli_wrong(command,
				    "cannot work on this processor: its agent is for x86-64 only; "
				    "watch, break, record and at work here");
}

/*
 * Searches beside this program, as in the build folder, then where the agent is
 * installed.
 */
static int find_agent(char *path, size_t n)
{
	const char *given = getenv("TRAPLINE_AGENT");
	char exe[PATH_MAX];

	if (given && *given) {
		snprintf(path, n, "%s", given);
		return access(path, R_OK);
	}
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash) {
		*slash = '\0';
		snprintf(path, n, "%s/" AGENT, exe);
		if (!access(path, R_OK))
			return 0;
	}
	snprintf(path, n, "%s/" AGENT, TRAPLINE_AGENT_DIR);
	return access(path, R_OK);
}

bool agent_is_there(void)
{
	char path[PATH_MAX + 64];

	return is_built && !find_agent(path, sizeof(path));
}

int agent_beside(const char *name, char *path, size_t n)
{
	char agent[PATH_MAX + 64];

	if (find_agent(agent, sizeof(agent)))
		return -1;
	char *slash = strrchr(agent, '/');
	snprintf(path, n, "%.*s%s", slash ? (int)(slash + 1 - agent) : 0, agent, name);
	return access(path, R_OK);
}

struct preloaded {
	const char *agent;
	const char *options;
};

/*
 * The loader of glibc takes $ORIGIN for the folder of the program, from which this leads to the
 * root. That of musl finds no such file, and continues: an absolute path it would load, and end at
 * the first name that it lacks.
 */
#define UP8 "/../../../../../../../.."
#define FROM_ORIGIN "$ORIGIN" UP8 UP8 UP8 UP8 UP8 UP8 UP8 UP8

void agent_preload(const char *path)
{
	const char *before = getenv("LD_PRELOAD");
	char whole[PATH_MAX];
	char text[2 * PATH_MAX + 4096];

	if (!realpath(path, whole))
		snprintf(whole, sizeof(whole), "%s", path);
	snprintf(text, sizeof(text), "%s%s%s%s", FROM_ORIGIN, whole, before && *before ? ":" : "",
		 before ? before : "");
	setenv("LD_PRELOAD", text, 1);
}

/* In the child. */
static bool set_environment(void *arg)
{
	const struct preloaded *added = arg;
	const char *options = getenv("TRAPLINE_OPTIONS");
	char text[PATH_MAX + 4096];

	agent_preload(added->agent);
	snprintf(text, sizeof(text), "%s%s%s", added->options, options && *options ? ":" : "",
		 options ? options : "");
	setenv("TRAPLINE_OPTIONS", text, 1);
	return true;
}

static int wrong_agent(const char *command)
{
	return cli_wrong(command,
			 "cannot find " AGENT " beside this command or in %s; name it in "
			 "TRAPLINE_AGENT",
			 TRAPLINE_AGENT_DIR);
}

int agent_command_start(const char *command, char *const *argv, const char *option,
			const struct agent_region *region, pid_t *pid)
{
	char agent[PATH_MAX + 64];
	char text[OPTION_BYTES];
	struct preloaded added = { agent, text };

	if (find_agent(agent, sizeof(agent)))
		return wrong_agent(command);
	option_of(option, region, text, sizeof(text));
	return inherited_start(command, argv, set_environment, &added, pid);
}

int agent_object_start(const char *command, char *const *argv, const char *object,
		       const char *option, const struct agent_region *region, pid_t *pid)
{
	char path[PATH_MAX + 64];
	char text[OPTION_BYTES];
	struct preloaded added = { path, text };

	if (agent_beside(object, path, sizeof(path)))
		return cli_wrong(command, "cannot find %s beside " AGENT, object);
	option_of(option, region, text, sizeof(text));
	return inherited_start(command, argv, set_environment, &added, pid);
}

int agent_command_check(const char *command, char *const *argv)
{
	char path[PATH_MAX];

	if (agent_is_for_this(command))
		return CLI_USAGE;
	if (program_find(argv[0], path, sizeof(path)))
		return CLI_OK; /* the start reports the reason */
	if (program_is_static(path))
		return cli_wrong(command,
				 "%s is linked statically: the agent cannot be loaded into "
				 "it. Link it dynamically",
				 path);
	if (program_is_32_bit(path))
		return cli_wrong(command,
				 "%s is a 32-bit program: the agent is for 64-bit programs", path);
	if (program_is_secure(path))
		return cli_wrong(command,
				 "%s is setuid or setgid, or has capabilities: the loader does "
				 "not preload into it. Run it as its owner",
				 path);
	const char *problem = preloadable_hindrance(path);
	if (problem)
		return cli_wrong(
			command,
			"the agent cannot be loaded into %s: %s; watch, break, record and at "
			"work with it",
			path, problem);
	return CLI_OK;
}

/* An open file that the process has no descriptor of. */
static int lock_anew(int fd, int *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*out = open(path, O_RDWR | O_CLOEXEC);
	return *out < 0 || flock(*out, LOCK_EX | LOCK_NB) ? -errno : 0;
}

/* Replaces the data, with its content, by a mapping of that file. The process has its own head. */
static int share_region(void *arg, int fd)
{
	const struct agent_share *share = arg;
	int err = 0;

	if (ftruncate(fd, (off_t)share->bytes) || file_seal(fd, false) ||
	    pwrite(fd, share->region, share->filled, 0) != (ssize_t)share->filled ||
	    mmap((char *)share->region + SHARE_HEAD_BYTES, share->bytes - SHARE_HEAD_BYTES,
		 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 SHARE_HEAD_BYTES) == MAP_FAILED ||
	    dup3(fd, share->data_fd, O_CLOEXEC) < 0)
		err = errno ? -errno : -EIO;
	if (!err && share->lock_fd)
		err = lock_anew(fd, share->lock_fd);
	close(fd);
	return err;
}

static int call_agent(const char *agent, pid_t pid, const char *option,
		      const struct agent_share *share, int *result, char *why, size_t why_size)
{
	const struct inject_shared shared = {
		.name = "trapline-region",
		.take = share_region,
		.arg = (void *)(uintptr_t)share,
		.object_name = share ? share->object_name : NULL,
		.object_fd = share ? share->object_fd : -1,
		.has_own_files = share && share->has_own_files,
		.then = share ? share->then : NULL,
	};
	char text[64];

	snprintf(text, sizeof(text), "%s=", option);
	return inject(pid, agent, "trapline_agent_call", text, share ? &shared : NULL, result, why,
		      why_size);
}

/* Its agent works in a thread of its own, which did not come. */
static int say_no_thread(const char *command, pid_t pid)
{
	if (program_is_stopped(pid))
		return cli_wrong(command,
				 "process %d: it is stopped: continue it first (kill -CONT %d)",
				 pid, pid);
	return cli_wrong(command,
			 "process %d: a thread that was started in it got no CPU for a second; try "
			 "again when less is running",
			 pid);
}

int agent_object_call(const char *command, pid_t pid, const char *object, const char *option,
		      const struct agent_share *share, int *result)
{
	char agent[PATH_MAX + 64];
	char why[512] = "";

	if (process_room_check(command, pid, share && share->room ? share->room : option))
		return CLI_USAGE;
	if (object ? agent_beside(object, agent, sizeof(agent)) : find_agent(agent, sizeof(agent)))
		return wrong_agent(command);
	int status = target_lock(command, pid);
	if (status)
		return status;
	/* One that a debugger has stopped is refused with the debugger's name. */
	if (share && share->has_own_files && program_is_stopped(pid) && !program_tracer(pid, pid))
		return say_no_thread(command, pid);
	int err = call_agent(agent, pid, option, share, result, why, sizeof(why));
	if (err && program_state(pid) == PROGRAM_IS_KERNEL)
		return cli_wrong(command, "process %d is a kernel thread: it has no program to %s",
				 pid, strcmp(command, "race") ? command : "search for races");
	if (!err && *result == -EUNATCH)
		return say_no_thread(command, pid);
	return err ? cli_wrong(command, "process %d: %s", pid, why) : CLI_OK;
}

int agent_call(const char *command, pid_t pid, const char *option, const struct agent_share *share,
	       int *result)
{
	return agent_object_call(command, pid, NULL, option, share, result);
}

static const volatile sig_atomic_t *asked; /* to end; NULL: by nothing */
static uint64_t end_ns;

static bool is_call_over(void)
{
	return (asked && *asked) || clock_now_ns() > end_ns;
}

static void call_until(const volatile sig_atomic_t *signal, uint64_t ns)
{
	asked = signal;
	end_ns = ns;
	inject_until(is_call_over);
}

void agent_call_until(const volatile sig_atomic_t *signal, uint64_t started_ns, uint64_t for_ns)
{
	call_until(signal, for_ns ? started_ns + for_ns + ATTACH_NS : UINT64_MAX);
}

void agent_call_within(const volatile sig_atomic_t *signal, uint64_t timeout_ns)
{
	uint64_t ns = timeout_ns < ATTACH_NS ? timeout_ns : ATTACH_NS;

	call_until(signal, clock_now_ns() + ns + ATTACH_LATE_NS);
}
