/* SPDX-License-Identifier: MIT */
/*
 * flow_state.h - bytes followed through a process: what the parts in the target share.
 *
 * Each byte that is followed has a mark: which source it came from, at which offset, by which step,
 * and whether it was only moved. Memory has its marks in pages of their own, which all threads
 * share; registers have them as long as a window runs. Between windows nothing is seen, so a mark
 * counts only if the byte still is what it was. It equals the source's, or, if it was computed,
 * what it was then.
 *
 * The parts, in the order of what happens; a part calls those below it, except that a step can
 * reach a site, and a watch can begin a window:
 *
 *	the run		flow_start.c	begin and end of the search
 *	sites		flow_sites.c	sources and sinks: libc's, and the user's
 *			flow_shared_call.c  the system call that several functions share
 *			flow_jumps.c	jumps or traps at the sites
 *	a source	flow_source.c	bytes that come in, natively or in a window
 *			flow_join.c	a read in parts
 *			flow_kernel.c	files, and bytes that the kernel alone moves
 *	a window	flow_budget.c	is there time for one?
 *			flow_window.c	it begins and ends
 *			flow_watch.c	between windows: copies that the registers watch
 *			flow_touch.c	the instruction that touches one
 *	a step		flow_choose.c	an instruction becomes a form
 *			flow_step.c	the form moves marks
 *			flow_marks.c	the marks of memory
 *			flow_calls.c	which functions call which; the steps that bytes take
 *	a sink		flow_sink.c	what it gets
 *			flow_text.c	texts that are searched there
 *			flow_open.c	what a descriptor leads to
 *			flow_mapped.c	memory that is shared with a file
 *			flow_glance.c	most calls have nothing
 *			flow_exec.c	what a program gets
 *			flow_residue.c	what is there at the end
 *	the report	flow_record.c	what was found becomes a record
 *			flow_locate.c	addresses become locations
 *	for all		flow_state.c	the data of this header, and counters
 *			flow_peek.c	memory and arguments of the program
 *
 * What runs inside a window leaves the vector registers alone (meson.build). No lock, no allocation
 * except by mmap, and memory of the program is read so that a fault cannot happen.
 */
#ifndef FLOW_FLOW_STATE_H
#define FLOW_FLOW_STATE_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "code/insn/insn_flow.h"
#include "code/window/window.h"
#include "record/flow_region.h"

/* ---- marks ---- */

typedef uint64_t flow_mark; /* 0: the byte is not followed */

#define FLOW_OFFSET_BITS 24
#define FLOW_SOURCE_BITS 12
#define FLOW_STEP_BITS 20
#define FLOW_IS_FOUND (1ull << 61) /* by a search, not by a step */
#define FLOW_IS_TABLE (1ull << 62)
#define FLOW_IS_COMPUTED (1ull << 63)

static inline uint32_t flow_offset_of(flow_mark m)
{
	return (uint32_t)(m & ((1u << FLOW_OFFSET_BITS) - 1));
}

static inline uint32_t flow_source_of(flow_mark m)
{
	return (uint32_t)(m >> FLOW_OFFSET_BITS) & ((1u << FLOW_SOURCE_BITS) - 1);
}

static inline uint32_t flow_step_of(flow_mark m)
{
	return (uint32_t)(m >> (FLOW_OFFSET_BITS + FLOW_SOURCE_BITS)) &
	       ((1u << FLOW_STEP_BITS) - 1);
}

static inline enum flow_grade flow_grade_of(flow_mark m)
{
	if (m & FLOW_IS_TABLE)
		return FLOW_GRADE_C;
	if (m & FLOW_IS_COMPUTED)
		return FLOW_GRADE_B;
	return m & FLOW_IS_FOUND ? FLOW_GRADE_FOUND : FLOW_GRADE_A;
}

static inline flow_mark flow_mark_of(uint32_t source, uint32_t offset, uint32_t step)
{
	return (flow_mark)offset | (flow_mark)source << FLOW_OFFSET_BITS |
	       (flow_mark)step << (FLOW_OFFSET_BITS + FLOW_SOURCE_BITS);
}

static inline flow_mark flow_with_step(flow_mark m, uint32_t step)
{
	const flow_mark field = ((1ull << FLOW_STEP_BITS) - 1)
				<< (FLOW_OFFSET_BITS + FLOW_SOURCE_BITS);

	return (m & ~field) | (flow_mark)step << (FLOW_OFFSET_BITS + FLOW_SOURCE_BITS);
}

_Static_assert(FLOW_SOURCES < 1u << FLOW_SOURCE_BITS && FLOW_STEPS < 1u << FLOW_STEP_BITS &&
		       FLOW_SOURCE_BYTES <= 1u << FLOW_OFFSET_BITS,
	       "a mark has room for them");

/* ---- what the process has ---- */

/* The bytes of a source as they were. */
struct flow_text {
	const uint8_t *bytes;
	uint32_t count;
};

enum flow_site_kind {
	FLOW_SITE_READ, /* behind a system call that read: rax bytes */
	FLOW_SITE_READV,
	FLOW_SITE_RECVMSG,
	FLOW_SITE_MAP,	  /* a file in memory */
	FLOW_SITE_PASS,	  /* from descriptor to descriptor, by the kernel alone */
	FLOW_SITE_MOVE,	  /* behind a system call that moved memory */
	FLOW_SITE_RESUME, /* behind a system call that ends a window */
	FLOW_SITE_GETENV,
	FLOW_SITE_ARGUMENT,		   /* of a function that is a source */
	FLOW_SITE_RESULT,		   /* at its ret */
	FLOW_SITE_END,			   /* of the process, without its destructors */
	FLOW_SITE_SINKS,		   /* from here on: sinks */
	FLOW_SITE_RANGE = FLOW_SITE_SINKS, /* argument is a pointer, the next one a length */
	FLOW_SITE_VECTOR,		   /* argument is an array of iovec, the next its length */
	FLOW_SITE_MESSAGE,
	FLOW_SITE_STRING,
	FLOW_SITE_PROGRAM, /* a path in `argument`, and an array of arguments in the next one */
	FLOW_SITE_SPAWN,   /* path second, arguments fifth */
	FLOW_SITE_LIST,	   /* a path, and arguments up to a null pointer */
	FLOW_SITE_MAPPED,  /* a range that may be shared with a file */
	FLOW_SITE_VALUE,   /* a register, and the string that it leads to */
};

struct flow_site {
	uint64_t address;
	uint8_t kind;	   /* enum flow_site_kind */
	uint8_t argument;  /* from 0 */
	uint8_t has_fd;	   /* argument 0 is a descriptor */
	uint8_t is_quiet;  /* without a trap: seen in windows only */
	uint8_t is_inner;  /* libc calls it for another of these */
	uint8_t is_behind; /* the system call is done */
	uint8_t has_peer;  /* arguments 4 and 5 are a socket address and its length */
	uint16_t next;	   /* another one at this address: its number + 1 */
	/*
	 * For a system call that several functions share: what leads back to its own function, and
	 * where. 0: it is not shared.
	 */
	uint16_t caller_above;
	uint64_t caller;
	const char *name;
};

#define FLOW_SITES 512u
#define FLOW_MAPPED_ENDS 1u /* argument of a site: the range is unmapped */

extern struct flow_region *flow_region;
extern struct flow_text flow_texts[FLOW_SOURCES];
extern struct flow_site flow_sites[FLOW_SITES];
extern uint32_t flow_site_count;
extern uint64_t flow_libc_start, flow_libc_end; /* its code */

/* The first one that begins there; NULL: none does. */
const struct flow_site *flow_site_at(uint64_t pc);
/*
 * Whether this is the function that made the call. The processor leaves in rcx where a system call
 * returns to: another way than by the call can lead there too.
 */
int flow_site_is_called(const struct flow_site *site, const uint64_t *regs);
/* The next one there. */
static inline const struct flow_site *flow_site_next(const struct flow_site *site)
{
	return site->next ? &flow_sites[site->next - 1] : NULL;
}

/* ---- a thread ---- */

enum flow_special {
	FLOW_IS_CALL = 1,
	FLOW_IS_SITE = 2,
	FLOW_IS_SYSCALL = 4,
	FLOW_REPEATS = 8,
	FLOW_IS_END = 16, /* the window ends before it: natively there is a jump */
};

struct flow_form {
	struct insn_flow flow;
	uint8_t special; /* enum flow_special */
	uint8_t length;
	uint8_t operand_bytes;
	uint8_t reads_memory;
	uint64_t reads; /* registers, as in flow_thread.any */
	uint64_t writes;
	uint64_t indexes; /* of the memory that it reads */
	struct window_operand memory[2];
};

#define FLOW_FORMS WINDOW_SITES_MAX /* each has a site */
#define FLOW_CALLS 256u
#define FLOW_PENDING 256u
#define FLOW_PENDING_STEPS 2048u
#define FLOW_PENDING_SOURCES 16u
#define FLOW_CLEAN_PAGES 128u

struct flow_call {
	uint64_t back; /* return address */
	uint64_t at;   /* where it lies */
};

/* Where the value of a register was computed; pc 0: elsewhere, and it was loaded as it is. */
struct flow_made {
	uint64_t pc;
	uint64_t back; /* of the function */
	uint64_t at;   /* where that lies */
};

struct flow_thread {
	struct flow_thread *next;
	struct window_area *area;
	uint64_t any; /* registers with marks: 16 general, from 16 on vectors */
	flow_mark general[16][8];
	flow_mark vector[32][64];
	struct flow_made made[16 + 32]; /* of registers whose marks are computed */
	uint32_t idle;			/* instructions since marks were touched */
	uint32_t form_epoch;
	uint32_t forms_used;
	uint32_t calls;
	uint32_t last_step;
	struct flow_call call[FLOW_CALLS];
	uint64_t began_ns;
	uint64_t suspended_pc; /* where the registers' marks continue */
	uint64_t suspended_sp;
	uint64_t sink_sp; /* of the outermost sink that the thread is in */
	const struct flow_site *sink_site;
	uint64_t skip_pc; /* a site that was inspected natively, where the window begins */
	int32_t tid;
	int watch_rests;
	uint32_t pending_steps[FLOW_PENDING_STEPS];
	uint32_t pending_records[FLOW_PENDING];
	uint32_t pending_sources[FLOW_PENDING_SOURCES];
	uint32_t sources_pending;
	uint32_t steps_pending;
	uint32_t records_pending;
	uint32_t pages_fresh;	/* with marks of this window; more than fit: all */
	uint32_t pages_settled; /* of the window before */
	uint64_t fresh[FLOW_CLEAN_PAGES];
	uint8_t page[4096];
	uint64_t words[4096]; /* of the stack */
	struct flow_form forms[FLOW_FORMS];
};

extern pid_t flow_self; /* the process, also when a thread asks that may be a child by vfork(2) */
/* That of the calling thread; NULL: it has had none yet. */
extern __thread struct flow_thread *flow_own __attribute__((tls_model("initial-exec")));

/* Where a thread is at a sink or a source. */
struct flow_moment {
	struct flow_thread *thread;
	const uint64_t *regs; /* by DWARF number */
	uint64_t pc;
	const ucontext_t *context; /* NULL: in a window */
	int has_ended;		   /* the window has, just now */
	/* Where a function returns to that Trapline is before, and its own is about to begin. */
	uint64_t back;
};

/* ---- flow_sites.c ---- */

/* 0 or -errno with why. */
int flow_sites_find(char *why, size_t n);
int flow_site_is_of_user(const struct flow_site *site);

/* ---- flow_state.c ---- */

/* Set before the region is unmapped, and before the last wait for threads that are in this code. */
extern uint32_t flow_has_ended;
/* Bytes are followed here: at its end the process is to be searched for them. */
void flow_follows(void);
/* 1: this process has followed bytes by itself. */
int flow_has_followed(void);
/* It was searched. */
void flow_was_searched(void);
void flow_state_forked(void);
/* 1: all that was to be found is there, or the command has ended it. */
int flow_is_over(void);
void flow_count(enum flow_counter counter, uint64_t n);
void flow_copy_name(char *to, const char *from, size_t n);

#endif
