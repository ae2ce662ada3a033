/* SPDX-License-Identifier: MIT */
/* self_watch.c - watches a word of its own, writes to it 100 times, says how often it was told. */
#include <stdio.h>
#include <string.h>

#include <trapline/trapline.h>

static volatile uint64_t word;
static volatile uint64_t hits;

static enum trapline_action on_hit(const struct trapline_hit *hit)
{
	hits++;
	return TRAPLINE_GO_ON;
}

int main(void)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	struct trapline *target;
	int err = trapline_open(0, NULL, &target);

	if (err)
		goto out;
	opts.callback = on_hit;
	err = trapline_watch(target, (uint64_t)(uintptr_t)&word, sizeof(word), TRAPLINE_WRITE,
			     &opts, &event);
	if (err)
		goto out;
	for (uint64_t i = 0; i < 100; i++)
		word = i;
	trapline_close(target);
	word = 0;
	printf("self_watch: %lu hits\n", (unsigned long)hits);
	return 0;

out:
	fprintf(stderr, "self_watch: %s\n", strerror(-err));
	return 1;
}
