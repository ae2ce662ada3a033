/* SPDX-License-Identifier: MIT */
/* cmd_dap.c - `trapline dap`: its options, and how a client reaches it. */
#include "cli/cmd.h"
#include "cli/dap/dap_loop.h"
#include "cli/message.h"
#include "cli/opts.h"
#include "cli/watchdog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN_BYTES 16
#define LOWEST_FD 10
#define PORT_NOT_GIVEN UINT64_MAX

struct settings {
	uint64_t port;
};

static const struct opt options[] = {
	{ "port", 0, OPT_COUNT, offsetof(struct settings, port), "N",
	  "wait for one client at port N of 127.0.0.1 (0: a free one), and print a token for it" },
};

const struct opt_syntax dap_syntax = {
	.command = "dap",
	.usage = "[--port N]",
	.about =
		"Speaks the Debug Adapter Protocol on its standard streams, for editors. Logpoints, function "
		"and data breakpoints become lines in the editor's console. The process never stops.",
	.tail = "examples:\n"
		"  trapline dap\n"
		"  sudo trapline dap --port 4711",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

/*
 * What is printed by chance must not get between messages: standard output becomes standard error,
 * and children read nothing.
 */
static int take_streams(int *in, int *out)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	*in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, LOWEST_FD);
	*out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, LOWEST_FD);
	if (nothing < 0 || *in < 0 || *out < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -errno;
	close(nothing);
	return 0;
}

static int serve_streams(void)
{
	int in;
	int out;
	int err = take_streams(&in, &out);

	if (err)
		return cli_wrong("dap", "cannot use the standard streams: %s", strerror(-err));
	dap_loop(in, out, NULL, -1);
	close(in);
	close(out);
	return CLI_OK;
}

static int listen_at(uint64_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)*port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int yes = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4) ||
	    getsockname(fd, (struct sockaddr *)&address, &length)) {
		int err = -errno;
		close(fd);
		return err;
	}
	*port = ntohs(address.sin_port);
	return fd;
}

static int make_token(char *text)
{
	unsigned char bytes[TOKEN_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* Until a client with the token has had its session. */
static void serve_clients(int listener, const char *token)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int yes = 1;

	while (!asked_times) {
		if (poll(&p, 1, 1000) <= 0)
			continue;
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		int was_trusted = dap_loop(fd, fd, token, listener);
		close(fd);
		if (was_trusted)
			return;
	}
}

static int serve_port(uint64_t port)
{
	char token[2 * TOKEN_BYTES + 1];

	if (port > UINT16_MAX)
		return cli_wrong("dap",
				 "invalid --port '%llu': expected 0 to 65535 (example: 4711)",
				 (unsigned long long)port);
	if (make_token(token))
		return cli_wrong("dap", "cannot make a token: the kernel gives no random bytes");
	int listener = listen_at(&port);
	if (listener < 0)
		return cli_wrong("dap",
				 "cannot listen at port %llu of 127.0.0.1: %s; choose another",
				 (unsigned long long)port, strerror(-listener));
	printf("port %llu token %s\n", (unsigned long long)port, token);
	fflush(stdout);
	serve_clients(listener, token);
	close(listener);
	return CLI_OK;
}

int cmd_dap(int argc, char **argv)
{
	struct settings set = { .port = PORT_NOT_GIVEN };
	int status;
	int first = opts_parse(&dap_syntax, argc, argv, &set, &status);

	if (first < 0)
		return status;
	if (first < argc)
		return cli_wrong("dap", "unexpected argument '%s': dap takes only options",
				 argv[first]);
	if (set.port == PORT_NOT_GIVEN && isatty(STDIN_FILENO))
		return cli_wrong("dap",
				 "cannot speak with a terminal: an editor starts trapline dap; see "
				 "trapline-dap(1)");
	watchdog_start("dap", false);
	return set.port == PORT_NOT_GIVEN ? serve_streams() : serve_port(set.port);
}
