/* SPDX-License-Identifier: MIT */
/* atomic.h - the few atomics used, on plain types: shared with BPF maps and C++ programs. */
#ifndef BASE_ATOMIC_H
#define BASE_ATOMIC_H

#define atomic_get(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define atomic_set(p, v) __atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define atomic_add(p, v) __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST)
#define atomic_swap(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define atomic_cas(p, old, new) \
	__atomic_compare_exchange_n(p, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
/* A forked child shares a page with its parent until one of them writes there. */
#define atomic_set_if_other(p, v)         \
	do {                              \
		if (atomic_get(p) != (v)) \
			atomic_set(p, v); \
	} while (0)
/* Statistics need no order. */
#define counter_add(p, v) __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define counter_get(p) __atomic_load_n(p, __ATOMIC_RELAXED)

#endif
