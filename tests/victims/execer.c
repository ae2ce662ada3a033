/* SPDX-License-Identifier: MIT */
/* execer.c - writes a variable for two seconds, then becomes `sleep 5`. */
#include <unistd.h>

unsigned long shared_counter;

int main(void)
{
	for (int i = 0; i < 200; i++) {
		shared_counter++;
		usleep(10000);
	}
	execlp("sleep", "sleep", "5", (char *)NULL);
	return 1;
}
