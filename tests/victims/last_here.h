/* SPDX-License-Identifier: MIT */
/* last_here.h - the functions of last_here.c, and what they call: F(function, callee). */
#ifndef LAST_HERE_H
#define LAST_HERE_H

#define LAST_HERE_NEVER(F)                          \
	F(after_own, here_dies)                     \
	F(after_interposed, here_or_in_the_program) \
	F(after_aborts, there_aborts)               \
	F(after_loops, there_loops)                 \
	F(after_deep, there_deep)                   \
	F(after_flag, there_by_flag)                \
	F(after_turns, there_turns)                 \
	F(after_chosen, there_is_chosen)            \
	F(after_none, there_is_none)
#define LAST_HERE_NEVER_BY_WORD(F)               \
	F(after_own_word, here_dies_by_word)     \
	F(after_loops_word, there_loops_by_word) \
	F(after_none_word, there_is_none_by_word)
#define LAST_HERE_RETURNS(F)                 \
	F(after_own_return, here_returns)    \
	F(after_return, there_returns)       \
	F(after_recursion, there_recurses)   \
	F(after_choice, there_may_be_chosen) \
	F(after_libc, getpid)                \
	F(after_chosen_libc, strlen)
#define LAST_HERE_RETURNS_BY_WORD(F)                \
	F(after_return_word, there_returns_by_word) \
	F(after_libc_word, getppid)

#endif
