#include <stdio.h>
/* Nobody reads this comment. {subject} */
/*
 * Of two threads one waits {begin}
 * and the other is held. {term}
 */
// the thread goes on {verb}
void bad(void)
{
	puts("nobody reads the output"); /* {subject} */
	cli_wrong(NAME, "in which process? Give -p PID"); /* {question} */
	cli_wrong(NAME, "the thread is no" /* {negation} */
			" thread of %s", name);
	printf("%" PRIu64 " looked at and " /* {verb} */
	       "held\n", number); /* {term} */
}
