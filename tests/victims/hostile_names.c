/* SPDX-License-Identifier: MIT */
/*
 * hostile_names.c - a program whose names control a terminal. A test replaces each qq in the built
 * file by an escape and a line break, and each zz by a control character of two bytes: in symbols,
 * in debug information and in the names of sources. Ends after 60 s.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#line 15 "qqfolder/zzfile.c"
enum qqstate { qqSTATE_ONE, zzSTATE_TWO };

struct zztype {
	enum qqstate qqmember;
	int other;
};

volatile enum qqstate plain_state;
struct zztype plain_struct;
volatile long plain_counter;
char plain_text[8];
/* Found by its place in the list only. */
volatile int qqvariable;

__attribute__((noinline, noclone)) static void zzinlined(void)
{
	plain_state = plain_state == qqSTATE_ONE ? zzSTATE_TWO : qqSTATE_ONE;
	plain_counter++;
	qqvariable++;
}

void qqwork(struct zztype *zzargument);

__attribute__((noinline, noclone)) void qqwork(struct zztype *zzargument)
{
	zzinlined();
	zzargument->qqmember = plain_state;
	plain_text[0] = (char)0xc2;
	plain_text[1] = (char)0x9b;
	plain_text[2] = plain_state == qqSTATE_ONE ? '1' : '2';
}

static void *run(void *unused)
{
	prctl(PR_SET_NAME, "\033[2J\nforged");
	for (int i = 0; i < 60000; i++) {
		qqwork(&plain_struct);
		usleep(1000);
	}
	return unused;
}

int main(void)
{
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run, NULL);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
