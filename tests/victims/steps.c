/* SPDX-License-Identifier: MIT */
/*
 * steps.c - code whose instructions are known one by one, to count steps over it. x86-64.
 *
 * line() has an instruction that shows the flags, a repeated one, a system call, and one that raises
 * SIGUSR1, whose handler is two instructions. `thread` ends another thread in in_thread(); `execute`
 * executes echo(1) there, and `kill` ends all with SIGKILL. `alarm` asks for SIGALRM at a time when
 * spin() has long ended unless stepped, and `continue` for SIGCONT when it is. `survive FILE` says in
 * FILE.started that it runs, and in FILE at the end what it prints.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define LATER_US 2000

unsigned char scratch[8];
unsigned long handled;

void line(void);
void spin(void);
void on_signal(int number);

__asm__(".text\n"
	".globl line, spin, on_signal\n"
	".type line, @function\n"
	"line:\n"
	"	nop\n"			       /* 0 */
	"	pushfq\n"		       /* 1 */
	"	pop %rax\n"		       /* 2 */
	"	push %rdi\n"		       /* 3 */
	"	lea scratch(%rip), %rdi\n"     /* 4 */
	"	mov $5, %ecx\n"		       /* 11 */
	"	rep stosb\n"		       /* 16 */
	"	pop %rdi\n"		       /* 18 */
	"	mov $39, %eax\n"	       /* 19: getpid */
	"	syscall\n"		       /* 24 */
	"	mov %eax, %edi\n"	       /* 26 */
	"	mov $10, %esi\n"	       /* 28: SIGUSR1 */
	"	mov $62, %eax\n"	       /* 33: kill */
	"	syscall\n"		       /* 38 */
	"	ret\n"			       /* 40 */
	".size line, . - line\n"
	".type spin, @function\n"
	"spin:\n"
	"	mov $100000, %ecx\n"	       /* 0 */
	"1:	nop\n"			       /* 5 */
	"	dec %ecx\n"
	"	jnz 1b\n"
	"	ret\n"
	".size spin, . - spin\n"
	".type on_signal, @function\n"
	"on_signal:\n"
	"	incq handled(%rip)\n"	       /* 0 */
	"	ret\n"			       /* 7 */
	".size on_signal, . - on_signal\n");

__attribute__((noipa)) static void *in_thread(void *arg)
{
	if (!strcmp(arg, "execute"))
		execlp("echo", "echo", "executed", NULL);
	if (!strcmp(arg, "kill"))
		kill(getpid(), SIGKILL);
	return NULL;
}

/* A function by itself, and inlined into main(). */
static inline __attribute__((always_inline)) unsigned long twice(unsigned long number)
{
	__asm__ volatile("" : "+r"(number));
	return 2 * number;
}

static unsigned long (*volatile twice_there)(unsigned long) = twice;

static int is_traced(pid_t pid)
{
	char path[64];
	char line[128];
	int tracer = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "TracerPid: %d", &tracer) != 1)
		;
	if (f)
		fclose(f);
	return tracer != 0;
}

static void continue_when_stepped(void)
{
	pid_t self = getpid();

	if (fork())
		return;
	while (!is_traced(self) && getppid() == self)
		usleep(500);
	kill(self, SIGCONT);
	_exit(0);
}

static void tell(const char *file, const char *suffix)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", file, suffix);
	FILE *f = fopen(path, "we");
	if (f) {
		fprintf(f, "handled %lu\n", handled);
		fclose(f);
	}
}

int main(int argc, char **argv)
{
	const struct itimerval later = { .it_value.tv_usec = LATER_US };
	char *what = argc > 1 ? argv[1] : "";
	pthread_t thread;

	signal(SIGUSR1, on_signal);
	signal(SIGALRM, on_signal);
	if (!strcmp(what, "survive"))
		tell(argv[2], ".started");
	line();
	if (!strcmp(what, "alarm"))
		setitimer(ITIMER_REAL, &later, NULL);
	if (!strcmp(what, "continue"))
		continue_when_stepped();
	spin();
	if ((!strcmp(what, "thread") || !strcmp(what, "execute") || !strcmp(what, "kill")) &&
	    (pthread_create(&thread, NULL, in_thread, what) || pthread_join(thread, NULL)))
		return 1;
	if (!strcmp(what, "survive"))
		tell(argv[2], "");
	printf("handled %lu\n", handled);
	return twice(handled) != twice_there(handled);
}
