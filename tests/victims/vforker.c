/* SPDX-License-Identifier: MIT */
/*
 * vforker.c FILE END PROGRAM ARG... - executes PROGRAM, after a child of it has gone into vfork(), whose
 * own child makes FILE when END exists, or after a minute, and only then lets it go.
 */
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	if (!fork()) {
		if (!vfork()) {
			for (int i = 0; i < 600 && access(argv[2], F_OK); i++)
				usleep(100000);
			close(open(argv[1], O_CREAT | O_WRONLY, 0600));
			_exit(0);
		}
		_exit(0);
	}
	usleep(300000);
	execv(argv[3], argv + 3);
	return 1;
}
