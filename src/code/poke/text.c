/* SPDX-License-Identifier: MIT */
/*
 * text.c - reading and writing text, one page at once where the kernel is asked.
 *
 * The three writers differ in what they need and in what forbids them:
 * - an alias (memory of trapline_code_alloc()): its descriptor, or stores into its second mapping;
 * - /proc/thread-self/mem: nothing, until a missing /proc forbids it, or the text is a shared
 *   mapping; where proc_mem.force_override asks for a tracer, /proc/PID/mem of a tracee (mem.c);
 * - mprotect(): no SELinux execmod, PR_SET_MDWE, seccomp filter or mseal() against it.
 * A fourth one changes all bytes at once, where stores must not or cannot: exchange.c. Through a
 * descriptor, pages that follow each other are one write: first to last byte that differs, between
 * them what was read a moment before. The others store only the bytes of the sites.
 *
 * Between the first int3 and the last byte there is no libc call except those that a trap can pass.
 * Loops that the compiler would turn into memcpy() copy by COPY.
 */
#include "code/poke/text.h"
#include "code/poke/change.h"
#include "code/poke/exchange.h"
#include "code/poke/mapping.h"
#include "code/poke/poke.h"
#include "code/poke/poke_view.h"
#include "code/poke/region.h"
#include "code/poke/text_mem.h"
#include "code/poke/twin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/sys.h"

#define PAGE_MASK (~(uint64_t)(PAGE_BYTES - 1))
#define READ_AT_ONCE 64u
#define OPEN_TRIES 1000 /* beside a patcher that closes the pages again and again */
#define WORD_BYTES 8u
#define SPIN_CODE 0xfeeb /* jmp to itself */

static const char why_none[] =
	"the text cannot be written: /proc/thread-self/mem is refused (proc_mem.force_override, a "
	"missing /proc, a shared mapping, or a seccomp filter); mprotect() is refused (SELinux "
	"execmod, PR_SET_MDWE, a seccomp filter or mseal())";
static const char why_no_store[] =
	"a single store needs a mapping that can be written to: memory of trapline_code_alloc(), "
	"or text that mprotect() may make writable";

static int mem_read(uint64_t address, void *out, size_t len)
{
	int fd = mem_open_plain();

	if (fd < 0)
		return -EFAULT;
	long n = sys_of_fd(SYS_pread64, fd, out, len, address, 0);
	sys_close(fd);
	return n == (long)len ? 0 : -EFAULT;
}

int text_read(uint64_t address, void *out, size_t len)
{
	/* Refused, or text that may be executed but not read: /proc can. */
	if (sys_read_memory(poke_pid(), address, out, len) == (long)len)
		return 0;
	return mem_read(address, out, len);
}

static int is_next(const struct text_span *span, const struct text_span *next)
{
	return span->start + span->image_bytes == next->start;
}

/* One system call for up to 64 pages; what that cannot is read one by one. */
static int read_some(struct text_span **spans, size_t n, uint64_t *at)
{
	struct iovec local[READ_AT_ONCE];
	struct iovec remote[READ_AT_ONCE];
	size_t parts = 0;
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		const struct text_span *span = spans[i];

		bytes += span->image_bytes;
		if (i && spans[i - 1] + 1 == span && is_next(spans[i - 1], span)) {
			local[parts - 1].iov_len += span->image_bytes;
			remote[parts - 1].iov_len += span->image_bytes;
			continue;
		}
		local[parts] = (struct iovec){ span->image, span->image_bytes };
		remote[parts++] =
			(struct iovec){ (void *)(uintptr_t)span->start, span->image_bytes };
	}
	if (sys6(SYS_process_vm_readv, poke_pid(), local, parts, remote, parts, 0) == (long)bytes)
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct text_span *span = spans[i];
		uint32_t gap = span->image_bytes - span->bytes;

		*at = span->first;
		if (text_read(span->start, span->image, span->bytes))
			return -EFAULT;
		if (gap && text_read(span->start + span->bytes, span->image + span->bytes, gap))
			return -EFAULT;
	}
	return 0;
}

int text_read_spans(struct text *text, int all, uint64_t *at)
{
	struct text_span *some[READ_AT_ONCE];
	size_t n = 0;
	int err = 0;

	for (size_t i = 0; i < text->span_count && !err; i++) {
		if (all || text->spans[i].writer == TRAPLINE_WRITE_MEM)
			some[n++] = &text->spans[i];
		if (n == READ_AT_ONCE || (n && i + 1 == text->span_count)) {
			err = read_some(some, n, at);
			n = 0;
		}
	}
	/* The last ones when the spans after them were left out. */
	return err ? err : n ? read_some(some, n, at) : 0;
}

size_t text_plan(struct text *text, size_t count)
{
	size_t n = 0;
	uint64_t end_of_page = 0;

	for (size_t i = 0; i < count; i++) {
		const struct poke_entry *entry = &text->entries[i];
		uint64_t end = entry->address + entry->len;
		struct text_span *span = &text->spans[n ? n - 1 : 0];

		if (!n || end > end_of_page) {
			span = &text->spans[n++];
			*span = (struct text_span){ .start = entry->address, .first = (uint32_t)i };
			end_of_page = (entry->address & PAGE_MASK) + PAGE_BYTES;
		}
		span->bytes = (uint32_t)(end - span->start);
		span->end = (uint32_t)i + 1;
	}
	text->span_count = n;
	for (size_t i = 0; i < n; i++) {
		struct text_span *span = &text->spans[i];
		int is_before = i + 1 < n &&
				span[1].start / PAGE_BYTES == span->start / PAGE_BYTES + 1;

		span->image_bytes = is_before ? (uint32_t)(span[1].start - span->start) :
						span->bytes;
	}
	return n;
}

/* ---- what a phase changes ---- */

static void store_2(uint8_t *at, uint16_t value)
{
	*(volatile uint16_t *)(void *)at = value;
}

static uint16_t load_2(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] | bytes[1] << 8);
}

/* No thread runs these bytes in the meantime, so their stores may be of any size. */
static inline void store_tail(const struct poke_entry *entry, uint32_t from, uint8_t *at)
{
	uint32_t i = from;

	for (; i + 4 <= entry->len; i += 4) {
		uint32_t word;

		memcpy(&word, entry->after + i, sizeof(word));
		*(volatile uint32_t *)(void *)(at + i) = word;
	}
	for (; i < entry->len; i++)
		((volatile uint8_t *)at)[i] = entry->after[i];
}

/* Compare and exchange, so that neighbours in the word keep what others store there. */
static void store_word(const struct poke_entry *entry, uint8_t *at)
{
	uint32_t from = 0;

	while (from + 1 < entry->len && entry->before[from] == entry->after[from])
		from++;
	uintptr_t word_at = ((uintptr_t)at + from) & ~(uintptr_t)(WORD_BYTES - 1);
	uint64_t *word = (uint64_t *)word_at;
	uint64_t old = atomic_get(word);
	uint64_t new;

	do {
		new = old;
		for (uint32_t i = from; i < entry->len; i++) {
			uintptr_t byte = (uintptr_t)at + i - word_at;
			if (byte >= WORD_BYTES)
				break;
			new &= ~(0xffull << byte * 8);
			new |= (uint64_t)entry->after[i] << byte * 8;
		}
	} while (!atomic_cas(word, &old, new));
}

static inline void apply(const struct poke_entry *entry, enum text_phase phase, uint8_t *at)
{
	switch (phase) {
	case TEXT_INT3:
		trap_store(at, trap_code);
		break;
	case TEXT_TAIL:
		store_tail(entry, TRAP_BYTES, at);
		break;
	case TEXT_FIRST:
		trap_store(at, entry->after);
		break;
	case TEXT_BACK:
		trap_store(at, entry->before);
		break;
	case TEXT_SPIN:
		store_2(at, SPIN_CODE);
		break;
	case TEXT_SPIN_TAIL:
		store_tail(entry, 2, at);
		break;
	case TEXT_SPIN_FIRST:
		store_2(at, load_2(entry->after));
		break;
	case TEXT_SPIN_BACK:
		store_2(at, load_2(entry->before));
		break;
	case TEXT_WHOLE:
		if (TRAP_BYTES == 1)
			store_word(entry, at);
		else
			trap_store(at, entry->after);
		break;
	}
}

/* base is where the span's first byte is written to. */
static void apply_all(const struct text *text, const struct text_span *span, enum text_phase phase,
		      uint8_t *base)
{
	for (uint32_t i = span->first; i < span->end; i++)
		apply(&text->entries[i], phase, base + (text->entries[i].address - span->start));
}

/* ---- writers ---- */

static int has_single_bytes(const struct text *text, const struct text_span *span)
{
	for (uint32_t i = span->first; i < span->end; i++)
		if (text->entries[i].len != TRAP_BYTES)
			return 0;
	return 1;
}

/*
 * The kernel copies, in stores of any size. But a byte is one store, and the others are as they
 * were. 1: phase is one that it can do.
 */
static int is_copied(const struct text *text, const struct text_span *spans, size_t n,
		     enum text_phase *phase)
{
	if (*phase < TEXT_SPIN)
		return 1;
	if (*phase != TEXT_WHOLE)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!has_single_bytes(text, &spans[i]))
			return 0;
	*phase = TEXT_FIRST;
	return 1;
}

/* What a phase stores at an entry; no phase of single stores is asked for. */
static struct iovec stored(const struct poke_entry *entry, enum text_phase phase)
{
	switch (phase) {
	case TEXT_INT3:
		return (struct iovec){ (void *)trap_code, TRAP_BYTES };
	case TEXT_TAIL:
		return (struct iovec){ (void *)(entry->after + TRAP_BYTES),
				       entry->len - TRAP_BYTES };
	case TEXT_BACK:
		return (struct iovec){ (void *)entry->before, TRAP_BYTES };
	default:
		return (struct iovec){ (void *)entry->after, TRAP_BYTES };
	}
}

static uint64_t stored_at(const struct poke_entry *entry, enum text_phase phase)
{
	return entry->address + (phase == TEXT_TAIL ? TRAP_BYTES : 0);
}

/* A write of its own for each site, where a copy of many bytes promises nothing for one word. */
static int write_words(struct text *text, const struct text_span *spans, size_t n,
		       enum text_phase phase, uint32_t writer)
{
	int err = 0;

	for (uint32_t i = spans->first; i < spans[n - 1].end && !err; i++) {
		const struct iovec part = stored(&text->entries[i], phase);
		uint64_t at = stored_at(&text->entries[i], phase);

		if (!part.iov_len)
			continue;
		err = writer == TRAPLINE_WRITE_ALIAS ?
			      region_store(at, part.iov_base, part.iov_len) :
			      mem_write(text->mem, at, part.iov_base, part.iov_len);
	}
	return err;
}

/* n spans of one image, as far as the phase changes it, by one call. */
static int write_image(struct text *text, const struct text_span *spans, size_t n,
		       enum text_phase phase, uint32_t writer)
{
	if (!is_copied(text, spans, n, &phase))
		return -EOPNOTSUPP;
	if (writer == TRAPLINE_WRITE_MEM && !text->mem)
		text->mem = text_mem_get();
	if (!TRAP_HAS_ALL_WRITERS)
		return write_words(text, spans, n, phase, writer);
	for (size_t i = 0; i < n; i++)
		apply_all(text, &spans[i], phase, spans[i].image);
	const struct poke_entry *last = &text->entries[spans[n - 1].end - 1];
	uint64_t end = last->address + (phase == TEXT_TAIL ? last->len : TRAP_BYTES);

	if (writer == TRAPLINE_WRITE_ALIAS)
		return region_store(spans->start, spans->image, end - spans->start);
	return mem_write(text->mem, spans->start, spans->image, end - spans->start);
}

/* Page protections of the alias change for what needs stores of Trapline's own. */
static int write_alias(struct text *text, struct text_span *span, enum text_phase phase)
{
	if (!write_image(text, span, 1, phase, TRAPLINE_WRITE_ALIAS))
		return 0;
	uint8_t *alias = region_alias(span->start, span->bytes);

	if (!alias)
		return -ENXIO;
	apply_all(text, span, phase, alias);
	return 0;
}

/* Writable until text_close(): this span and those behind it in the same mapping. */
static int open_pages(struct text *text, struct text_span *span)
{
	uint64_t from = span->start & PAGE_MASK;
	struct text_span *last = span;
	static struct mapping mapping; /* it is large, and the lock is held */
	int err = mapping_find(span->start, &mapping);

	if (err)
		return err;
	while (last + 1 < text->spans + text->span_count &&
	       last[1].start + last[1].bytes <= mapping.end)
		last++;
	uint64_t to = (last->start + last->bytes + PAGE_BYTES - 1) & PAGE_MASK;
	err = (int)sys3(SYS_mprotect, from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC);
	if (err)
		return err;
	span->opened_bytes = to - from;
	span->protection = (uint8_t)mapping.protection;
	for (struct text_span *s = span; s <= last; s++)
		s->is_open = 1;
	return 0;
}

/* -EFAULT: the pages are not writable at this moment. Only the bytes of the sites are stored. */
static int copy_some(const struct poke_entry *entries, size_t n, enum text_phase phase)
{
	struct iovec local[READ_AT_ONCE];
	struct iovec remote[READ_AT_ONCE];
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		local[i] = stored(&entries[i], phase);
		remote[i] = (struct iovec){ (void *)(uintptr_t)stored_at(&entries[i], phase),
					    local[i].iov_len };
		bytes += local[i].iov_len;
	}
	long done = sys6(SYS_process_vm_writev, sys_getpid(), local, n, remote, n, 0);
	return done == (long)bytes ? 0 : done < 0 ? (int)done : -EFAULT;
}

/*
 * By the kernel: another patcher may take the pages' permission away at any moment, and a store of
 * Trapline's own would be a SIGSEGV of the program. A phase may be written twice.
 */
static int copy_all(const struct text *text, const struct text_span *span, enum text_phase phase)
{
	uint64_t from = span->start & PAGE_MASK;
	uint64_t to = (span->start + span->bytes + PAGE_BYTES - 1) & PAGE_MASK;
	int tries = 0;

	for (uint32_t i = span->first; i < span->end;) {
		uint32_t n = span->end - i < READ_AT_ONCE ? span->end - i : READ_AT_ONCE;
		int err = copy_some(&text->entries[i], n, phase);

		if (!err)
			i += n;
		else if (err != -EFAULT || tries++ == OPEN_TRIES)
			return err;
		else if ((err = (int)sys3(SYS_mprotect, from, to - from,
					  PROT_READ | PROT_WRITE | PROT_EXEC)))
			return err;
	}
	return 0;
}

static int write_mprotect(struct text *text, struct text_span *span, enum text_phase phase)
{
	int err = span->is_open ? 0 : open_pages(text, span);

	if (err)
		return err;
	if (phase < TEXT_SPIN) {
		err = copy_all(text, span, phase);
		/* Refused by a filter: it is not the pages. */
		if (err != -EPERM && err != -ENOSYS)
			return err;
	}
	apply_all(text, span, phase, (uint8_t *)(uintptr_t)span->start);
	return 0;
}

static int write_by(uint32_t writer, struct text *text, struct text_span *span,
		    enum text_phase phase, const char **why)
{
	if (writer == TRAPLINE_WRITE_ALIAS)
		return write_alias(text, span, phase);
	if (writer == TRAPLINE_WRITE_EXCHANGE)
		return phase == TEXT_WHOLE ? exchange_pages(text, span, 1, why) : -EOPNOTSUPP;
	if (region_is_lost(span->start))
		return -EACCES; /* it would change the parent's code too */
	if (writer == TRAPLINE_WRITE_MEM)
		return write_image(text, span, 1, phase, writer);
	return write_mprotect(text, span, phase);
}

/* /proc/self/mem does it itself; its pages may even be gone by now. */
static void sync_caches(const struct text *text, const struct text_span *spans, size_t n)
{
	for (size_t s = 0; s < n; s++)
		for (uint32_t i = spans[s].first;
		     i < spans[s].end && spans[s].writer != TRAPLINE_WRITE_MEM; i++)
			code_sync_caches(text->entries[i].address, text->entries[i].len);
}

/* Which the first write tries. If it fails, each span is written by itself. */
static uint32_t likely_writer(const struct text *text)
{
	uint32_t writer = region_has(text->spans->start) ? TRAPLINE_WRITE_ALIAS :
							   TRAPLINE_WRITE_MEM;

	return text->writers & writer;
}

/* By the writer of the first, or of the span before it. 0: they are to be written one by one. */
static size_t count_run(const struct text *text, size_t first, uint32_t *writer)
{
	const struct text_span *spans = text->spans;
	size_t end = first;

	*writer = spans[first].writer ? spans[first].writer :
		  first		      ? spans[first - 1].writer :
					likely_writer(text);
	if (*writer != TRAPLINE_WRITE_ALIAS && *writer != TRAPLINE_WRITE_MEM)
		return 0;
	for (; end < text->span_count; end++) {
		const struct text_span *span = &spans[end];

		if (span->is_failed || (span->writer && span->writer != *writer) ||
		    (end > first && !is_next(span - 1, span)) ||
		    (*writer == TRAPLINE_WRITE_MEM && region_is_lost(span->start)))
			break;
	}
	return end - first;
}

size_t text_write_run(struct text *text, size_t first, enum text_phase phase)
{
	struct text_span *spans = &text->spans[first];
	uint32_t writer = TRAPLINE_WRITE_EXCHANGE;
	size_t n;

	if (text->writers == writer) {
		const char *why;

		n = exchange_count(spans, text->span_count - first);
		if (phase != TEXT_WHOLE || exchange_pages(text, spans, n, &why))
			return 0;
		goto out_written;
	}
	n = count_run(text, first, &writer);
	if (n < 2 || write_image(text, spans, n, phase, writer))
		return 0;
out_written:
	for (size_t i = 0; i < n; i++)
		spans[i].writer = (uint8_t)writer;
	sync_caches(text, spans, n);
	return n;
}

/*
 * What mprotect() opened stays a mapping of its own, as one that was written to. An exchange takes
 * five times as long.
 */
int text_write(struct text *text, struct text_span *span, enum text_phase phase, const char **why)
{
	static const uint8_t fast[] = { TRAPLINE_WRITE_ALIAS, TRAPLINE_WRITE_MEM,
					TRAPLINE_WRITE_MPROTECT, TRAPLINE_WRITE_EXCHANGE };
	static const uint8_t whole[] = { TRAPLINE_WRITE_ALIAS, TRAPLINE_WRITE_MEM,
					 TRAPLINE_WRITE_EXCHANGE, TRAPLINE_WRITE_MPROTECT };
	const uint8_t *const order = poke_keeps_mappings ? whole : fast;
	int refused = 0;

	if (span->writer && !write_by(span->writer, text, span, phase, why)) {
		sync_caches(text, span, 1);
		return 0;
	}
	for (size_t i = 0; i < sizeof(fast); i++) {
		if (!(text->writers & order[i]))
			continue;
		int err = write_by(order[i], text, span, phase, why);
		if (!err) {
			span->writer = order[i];
			sync_caches(text, span, 1);
			return 0;
		}
		if (order[i] == TRAPLINE_WRITE_EXCHANGE && phase == TEXT_WHOLE)
			refused = err;
	}
	if (refused)
		return refused;
	*why = phase >= TEXT_SPIN ? why_no_store : why_none;
	return phase >= TEXT_SPIN ? -EOPNOTSUPP : -EACCES;
}

int text_write_fresh(uint64_t address, const void *bytes, size_t len)
{
	uint64_t from = address & PAGE_MASK;
	uint64_t to = (address + len + PAGE_BYTES - 1) & PAGE_MASK;
	int err = mem_write(text_mem_get(), address, bytes, len);

	text_mem_put();
	if (!err)
		return 0;
	if (sys3(SYS_mprotect, from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC))
		return -EACCES;
	memcpy((void *)(uintptr_t)address, bytes, len);
	code_sync_caches(address, len);
	sys3(SYS_mprotect, from, to - from, PROT_READ | PROT_EXEC);
	return 0;
}

void text_close(struct text *text)
{
	for (size_t i = 0; i < text->span_count; i++) {
		struct text_span *span = &text->spans[i];

		uint64_t from = span->start & PAGE_MASK;

		if (!span->opened_bytes)
			continue;
		sys3(SYS_mprotect, from, span->opened_bytes, span->protection);
		twin_note(from, span->opened_bytes, 1);
		if (poke_keeps_mappings)
			exchange_restore(from, span->opened_bytes);
	}
	region_seal();
	if (text->mem)
		text_mem_put();
	text->mem = NULL;
}
