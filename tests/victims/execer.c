/* SPDX-License-Identifier: MIT */
/* execer.c - writes a variable until SIGUSR1 or the end of a minute, then becomes `sleep 5`. */
#include <signal.h>
#include <unistd.h>

unsigned long shared_counter;

static volatile sig_atomic_t is_over;

static void end(int sig)
{
	is_over = sig;
}

int main(void)
{
	signal(SIGUSR1, end);
	for (int i = 0; i < 6000 && !is_over; i++) {
		shared_counter++;
		usleep(10000);
	}
	execlp("sleep", "sleep", "5", (char *)NULL);
	return 1;
}
