/* SPDX-License-Identifier: MIT */
/* finding_stack.c - see finding_stack.h. */
#include "report/finding/finding_stack.h"

#include "report/finding/finding_place.h"

static void add_frames(struct suppress_stack *stack, struct suppress_frame *frames,
		       const struct place *places, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++)
		frames[stack->count++] = (struct suppress_frame){
			.function = places[i].function,
			.symbol = places[i].symbol,
			.source = places[i].file,
			.line = places[i].line,
			.module = places[i].module,
			.path = *path ? path : NULL,
			.is_inlined = i + 1 < count,
		};
}

void finding_stack_fill(struct file_places *places, const uint64_t *frames, uint32_t n,
			bool is_access, uint32_t top, struct finding_stack *room,
			struct suppress_stack *out)
{
	struct place found[FINDING_INLINED];

	*out = (struct suppress_stack){ .frames = room->frames };
	for (uint32_t i = 0; i < n && i < FINDING_FRAMES; i++) {
		const size_t count = file_places_frames(places, frames[i], !is_access || i > 0,
							found, FINDING_INLINED);

		if (finding_is_of_trapline(found[0].module))
			continue;
		file_places_name(places, frames[i], room->paths[i], sizeof(room->paths[i]));
		if (i == top)
			out->top = out->count;
		add_frames(out, room->frames, found, count, room->paths[i]);
	}
	while (top == UINT_MAX && out->top + 1 < out->count &&
	       symbols_is_system(out->frames[out->top].module))
		out->top++;
}
