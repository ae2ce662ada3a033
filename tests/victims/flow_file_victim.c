/* SPDX-License-Identifier: MIT */
/*
 * flow_file_victim.c MODE - a text that gets into a file, which `trapline flow` has to name.
 *
 * The text comes by standard input, 24 bytes and a newline; the file is $FLOW_FILE.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define LENGTH 24
#define MAPPED_BYTES 8192

static char text[64];

__attribute__((noinline)) static void take_text(void)
{
	if (!fgets(text, sizeof(text), stdin))
		exit(9);
	text[strcspn(text, "\n")] = '\0';
}

__attribute__((noinline)) static void copy_by_loop(char *to, const char *from)
{
	for (; *from; from++, to++) {
		*to = *from;
		__asm__ volatile("" : : : "memory");
	}
}

/* ---- memory that is shared with the file ---- */

static char *map_file(int flags)
{
	int fd = open(getenv("FLOW_FILE"), O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, MAPPED_BYTES))
		exit(6);
	char *map = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (map == MAP_FAILED || close(fd))
		exit(6);
	return map;
}

/* Behind what the file may have. */
static char *copy_into(char *map)
{
	take_text();
	copy_by_loop(map + 5000, text);
	return map;
}

__attribute__((noinline)) static void unmap(char *map)
{
	if (munmap(map, MAPPED_BYTES))
		exit(6);
}

static void mapped_munmap(void)
{
	unmap(copy_into(map_file(MAP_SHARED)));
}

static void mapped_msync(void)
{
	char *map = copy_into(map_file(MAP_SHARED));

	if (msync(map, MAPPED_BYTES, MS_SYNC))
		exit(6);
	memset(map, 0, MAPPED_BYTES);
	unmap(map);
}

static void mapped_end(void)
{
	copy_into(map_file(MAP_SHARED));
}

static void mapped_end_at_once(void)
{
	copy_into(map_file(MAP_SHARED));
	_exit(0);
}

static void mapped_private(void)
{
	unmap(copy_into(map_file(MAP_PRIVATE)));
}

static void mapped_cleared(void)
{
	char *map = copy_into(map_file(MAP_SHARED));

	memset(map, 'x', MAPPED_BYTES);
	unmap(map);
}

/* Other memory where the file was: it is not the file's. */
static void mapped_replaced(void)
{
	char *map = map_file(MAP_SHARED);

	if (mmap(map, MAPPED_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != map)
		exit(6);
	unmap(copy_into(map));
}

/* The file has the text, and the process reads it there and in its input. */
static void mapped_source(void)
{
	char *map = map_file(MAP_SHARED);
	char out[LENGTH];

	take_text();
	memcpy(out, map, LENGTH);
	__asm__ volatile("" : : "r"(out) : "memory");
	unmap(map);
}

/* By no instruction, so that no window sees it. */
static void mapped_unseen(void)
{
	char *map = map_file(MAP_SHARED);
	const struct iovec local = { map + 5000, LENGTH };
	const struct iovec remote = { text, LENGTH };

	take_text();
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != LENGTH)
		exit(8);
	memset(text, 0, sizeof(text));
	unmap(map);
}

/* The file's text is in a buffer that no instruction has copied it to. */
static void rewritten(void)
{
	char out[64];
	int fd = open(getenv("FLOW_FILE"), O_RDONLY);
	const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(out));

	if (n < LENGTH)
		exit(6);
	const struct iovec local = { out, (size_t)n };
	const struct iovec remote = { text, (size_t)n };
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != n || write(2, out, (size_t)n) != n)
		exit(8);
}

/* ---- what descriptors lead to ---- */

/* To two files by one call, the first of which is another one by the end. */
static void files(void)
{
	char name[256];
	const char *path = getenv("FLOW_FILE");

	take_text();
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s.%d", path, i);
		int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		if (fd < 0 || write(fd, text, LENGTH) != LENGTH || close(fd))
			exit(6);
	}
	if (rename(name, path) || open("/dev/null", O_WRONLY) < 0)
		exit(6);
}

/* A file that is named by the text. */
static void named(void)
{
	char name[512];

	take_text();
	snprintf(name, sizeof(name), "%s.%s", getenv("FLOW_FILE"), text);
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, text, LENGTH) != LENGTH)
		exit(6);
}

static void peers(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(here);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int to = socket(AF_INET, SOCK_STREAM, 0);
	int packets = socket(AF_INET, SOCK_DGRAM, 0);

	if (bind(listener, (struct sockaddr *)&here, bytes) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&here, &bytes) ||
	    connect(to, (struct sockaddr *)&here, bytes))
		exit(6);
	printf("%d\n", ntohs(here.sin_port));
	fflush(stdout);
	take_text();
	here.sin_port = htons(9);
	if (send(to, text, LENGTH, 0) != LENGTH ||
	    sendto(packets, text, LENGTH, 0, (struct sockaddr *)&here, bytes) != LENGTH)
		exit(6);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "mapped-munmap", mapped_munmap },
		{ "mapped-msync", mapped_msync },
		{ "mapped-end", mapped_end },
		{ "mapped-end-at-once", mapped_end_at_once },
		{ "mapped-private", mapped_private },
		{ "mapped-cleared", mapped_cleared },
		{ "mapped-replaced", mapped_replaced },
		{ "mapped-source", mapped_source },
		{ "mapped-unseen", mapped_unseen },
		{ "rewritten", rewritten },
		{ "files", files },
		{ "named", named },
		{ "peers", peers },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		modes[i].run();
		return 0;
	}
	return 2;
}
