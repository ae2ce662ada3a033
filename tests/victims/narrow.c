/* SPDX-License-Identifier: MIT */
/*
 * narrow.c - a 32-bit program without a library: a pointer, a number that changes, and a function
 * with an argument on the stack.
 */
struct item {
	int number;
};

static struct item items[2];
struct item *head = items;
int narrow_count;

__attribute__((noinline)) int add_item(struct item *item, int by)
{
	item->number += by;
	narrow_count++;
	return item->number;
}

static void sleep_a_moment(void)
{
	struct {
		int seconds;
		int nanoseconds;
	} time = { 0, 20000000 };
	int result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(162), "b"(&time), "c"(0) : "memory");
}

void _start(void)
{
	for (;;) {
		add_item(head, 2);
		sleep_a_moment();
	}
}
