/* SPDX-License-Identifier: MIT */
/*
 * demangle.c - readable names of C++, Rust and D.
 *
 * A mangled name refers to its own earlier parts, so that 200 characters can stand for gigabytes:
 * the target chose it. A name with many references goes to a process with little memory and time,
 * which serves until such a name ends it.
 */
#include "report/dwarf/symbols_priv.h"
#include "report/safe/busy.h"
#include "report/safe/isolate.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each level of a name doubles its length by two references. */
#define REFERENCES_MAX 24
#define PACKS_MAX 2
#define MANGLED_MAX 4096u  /* the demangler itself refuses names of more than 1,024 */
#define READABLE_MAX 8192u /* a longer one is not readable */
#define WAIT_MS 1000
#define SERVER_BYTES (256ull << 20)
#define SERVERS_MAX 8 /* after so many ends such names stay as they are */

static struct server {
	pid_t pid;
	int fd;
	int count; /* that were started */
} server;

typedef char *(*demangler)(const char *, char *, size_t *, int *);

/*
 * The demangler is in the C++ runtime, which is opened at the first mangled name. A machine that
 * runs such a program has that library, and others do not need it.
 */
static demangler demangler_get(void)
{
	static demangler function;
	static bool tried;

	if (!tried) {
		void *lib = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
		if (lib)
			function = (demangler)dlsym(lib, "__cxa_demangle");
		tried = true;
	}
	return function;
}

/* Rust ends a name in a hash, `r::Acc::pay::h72ed9ad04461900f`, which users do not type. */
static void cut_rust_hash(char *name)
{
	size_t n = strlen(name);

	if (n > 19 && !strncmp(name + n - 19, "::h", 3) &&
	    strspn(name + n - 16, "0123456789abcdef") == 16)
		name[n - 19] = 0;
	else
		return;
	demangle_rust_escapes(name);
}

/* `name[abi:cxx11](int)`: that it returns the new std::string. Users do not type that either. */
static void cut_abi_tags(char *name)
{
	char *tag;

	while ((tag = strstr(name, "[abi:"))) {
		char *end = strchr(tag, ']');
		if (!end)
			return;
		memmove(tag, end + 1, strlen(end + 1) + 1);
	}
}

/* St, Sa and the like are fixed words. S_, S1_, T_ and T1_ refer to parts of the name. */
static bool is_costly(const char *name)
{
	unsigned int references = 0;
	unsigned int packs = 0;

	for (const char *c = name; *c; c++) {
		const char *end = c + 1;

		packs += (c[0] == 'D' || c[0] == 's') && c[1] == 'p';
		while (isdigit((unsigned char)*end) || isupper((unsigned char)*end))
			end++;
		references += (*c == 'S' || *c == 'T') && *end == '_';
	}
	return references > REFERENCES_MAX || packs > PACKS_MAX;
}

static void serve(demangler demangle)
{
	char name[MANGLED_MAX];
	ssize_t n;
	int status;

	while ((n = recv(STDIN_FILENO, name, sizeof(name) - 1, 0)) > 0) {
		name[n] = '\0';
		char *readable = demangle(name, NULL, NULL, &status);
		size_t length = readable ? strlen(readable) : 0;
		/* With its NUL; an empty one: there is none. */
		bool fits = length && length < READABLE_MAX;
		if (send(STDIN_FILENO, fits ? readable : "", fits ? length + 1 : 1, MSG_NOSIGNAL) <
		    0)
			break;
		free(readable);
	}
	_exit(0);
}

/* The descriptors of this process, such as those of events, must not live on in another. */
static void run_server(demangler demangle, int fd)
{
	if (dup2(fd, STDIN_FILENO) < 0 || close_range(STDIN_FILENO + 1, ~0u, 0))
		_exit(1);
	isolate_enter(SERVER_BYTES, RLIM_INFINITY);
	/* The thread that starts it may end before the command. Its socket shows the end. */
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	serve(demangle);
}

static bool server_start(demangler demangle)
{
	int ends[2];

	if (server.pid)
		return true;
	if (server.count == SERVERS_MAX ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return false;
	pid_t pid = fork();
	if (!pid)
		run_server(demangle, ends[1]);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return false;
	}
	server.pid = pid;
	server.fd = ends[0];
	server.count++;
	return true;
}

static void server_end(void)
{
	kill(server.pid, SIGKILL);
	while (waitpid(server.pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(server.fd);
	server.pid = 0;
}

static char *ask_server(demangler demangle, const char *name)
{
	char readable[READABLE_MAX];
	size_t length = strlen(name);

	if (length >= MANGLED_MAX || !server_start(demangle))
		return NULL;
	struct pollfd p = { .fd = server.fd, .events = POLLIN };
	bool is_sent = send(server.fd, name, length, MSG_NOSIGNAL) == (ssize_t)length;
	int ready;
	do {
		ready = is_sent ? poll(&p, 1, WAIT_MS) : 0;
	} while (ready < 0 && errno == EINTR);
	ssize_t n = ready > 0 ? recv(server.fd, readable, sizeof(readable), MSG_DONTWAIT) : 0;
	if (n <= 0 || readable[n - 1]) {
		server_end();
		return NULL;
	}
	return readable[0] ? strdup(readable) : NULL;
}

char *symbols_demangle(const char *name)
{
	BUSY;
	int status;

	if (name[0] == '_' && name[1] == 'R')
		return demangle_rust(name);
	if (demangle_is_d(name))
		return demangle_d(name);
	if (name[0] != '_' || name[1] != 'Z' || strnlen(name, MANGLED_MAX) == MANGLED_MAX)
		return NULL;
	demangler demangle = demangler_get();
	char *readable = !demangle	 ? NULL :
			 is_costly(name) ? ask_server(demangle, name) :
					   demangle(name, NULL, NULL, &status);
	if (readable) {
		cut_rust_hash(readable);
		cut_abi_tags(readable);
	}
	return readable;
}
