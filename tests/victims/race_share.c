/* SPDX-License-Identifier: MIT */
/*
 * race_share.c KIND - what another process could leave where a command of `trapline` was: memory
 * that the agent of a program started later would use. Prints the option that names it, and after a
 * line of input how many processes have used it.
 *
 * KIND is "right", or what is wrong with it: "nonce", "head" (is not sealed against writes), "size" (can
 * be cut), "old" (the form of earlier versions). Or "throttle", which is right.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record/race_region.h"
#include "record/throttle_region.h"

static const char *kind;

static int is_kind(const char *name)
{
	return !strcmp(kind, name);
}

static int make_file(size_t bytes)
{
	int fd = memfd_create("trapline", MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) ||
	    (!is_kind("size") && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)))
		return -1;
	return fd;
}

static void *map(int fd, size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void fill_head(struct share_head *head, int is_throttle, size_t bytes)
{
	head->magic = is_throttle ? THROTTLE_MAGIC : RACE_MAGIC;
	head->bytes = bytes;
	head->observer = getpid();
	head->nonce[0] = 1;
	head->nonce[1] = is_kind("nonce") ? 3 : 2;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	kind = argv[1];
	int is_throttle = is_kind("throttle");
	size_t bytes = is_throttle ? sizeof(struct throttle_region) : sizeof(struct race_region);
	int head_fd = make_file(SHARE_HEAD_BYTES);
	int data_fd = make_file(bytes);
	if (head_fd < 0 || data_fd < 0)
		return 2;
	struct race_region *head = map(head_fd, SHARE_HEAD_BYTES);
	void *data = map(data_fd, bytes);
	if (head == MAP_FAILED || data == MAP_FAILED)
		return 2;
	fill_head(&head->share, is_throttle, bytes);
	fill_head(data, is_throttle, bytes);
	if (is_throttle) {
		struct throttle_region *region = (void *)head;

		region->count = 1;
		region->limits[0].per_second = 1000000000;
	} else {
		head->settings.budget_ppm = 10000;
	}
	if (!is_kind("head"))
		fcntl(head_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	printf("%s=", is_throttle ? "throttle" : "race");
	if (is_kind("old"))
		printf("/proc/%d/fd/%d\n", getpid(), data_fd);
	else
		printf("%d,%d,%d,%016x%016x\n", getpid(), head_fd, data_fd, 1, 2);
	fflush(stdout);
	getchar();
	printf("%llu\n", (unsigned long long)(is_throttle ?
						      ((struct throttle_region *)data)->processes :
						      ((struct race_region *)data)->process_count));
	return 0;
}
