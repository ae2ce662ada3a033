#include "place/held.h"
#include <stdio.h>
/* One of two threads waits; the other continues. */
/* of a process: not a sentence */
/*
 *	nobody is read in an example
 */
void good(void)
{
	json_pack("{s:s, s:i}", "held", "place");
	printf("{\"type\":\"held\",\"place\":\"%s\"}\n", text);
	cli_wrong(NAME, "no process is named 'x'; did "
			"you mean y?");
	cli_wrong(NAME, "cannot open %s: %s", path, why);
	printf("f? g");
	puts("the lock that it holds");
	char c = '"'; puts("is x");
	c = is_good ? 'a' : 'b';
}
