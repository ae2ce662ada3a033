/* SPDX-License-Identifier: MIT */
/*
 * observe_options.h - the options of watch, break and record, each with one text.
 *
 * The file that includes this defines AT(member), the offset of a member in its settings.
 */
#ifndef OBSERVE_OPTIONS_H
#define OBSERVE_OPTIONS_H

#include "cli/opts.h"

#define OPTION_PID                                                               \
	{                                                                        \
		"pid", 'p', OPT_PID, AT(pid), "PID", "observe a running process" \
	}
#define OPTION_LIST(text)                                   \
	{                                                   \
		"list", 'l', OPT_FLAG, AT(list), NULL, text \
	}
#define OPTION_IF                                                                            \
	{                                                                                    \
		"if", 0, OPT_STRING, AT(condition), "COND",                                  \
			"report only hits for which COND is true; see trapline-condition(7)" \
	}
#define OPTION_EXPLAIN                                             \
	{                                                          \
		"explain", 0, OPT_FLAG, AT(explain), NULL,         \
			"print the program made of --if, and exit" \
	}
#define OPTION_LIMIT                                                         \
	{                                                                    \
		"limit", 'n', OPT_COUNT, AT(limit), "N", "stop after N hits" \
	}
#define OPTION_FOR                                                                              \
	{                                                                                       \
		"for", 0, OPT_TIME, AT(for_ns), "TIME", "stop after TIME, such as 10s or 500ms" \
	}
#define OPTION_STACK                                                                        \
	{                                                                                   \
		"stack", 's', OPT_FLAG, AT(stack), NULL, "print the call stack of each hit" \
	}
#define OPTION_FRAMES                                                            \
	{                                                                        \
		"frames", 0, OPT_COUNT, AT(frames), "N",                         \
			"print at most N frames of each stack; includes --stack" \
	}
#define OPTION_NO_STACK                                                                  \
	{                                                                                \
		"no-stack", 0, OPT_FLAG, AT(no_stack), NULL, "leave out the call stacks" \
	}
#define OPTION_JSON                                                                    \
	{                                                                              \
		"json", 'j', OPT_FLAG, AT(json), NULL, "print JSON, one object a line" \
	}
#define OPTION_OUTPUT                                                   \
	{                                                               \
		"output", 'o', OPT_STRING, AT(output), "FILE",          \
			"write the JSON lines to FILE, beside the text" \
	}
#define OPTION_RECORD                                                                        \
	{                                                                                    \
		"output", 'o', OPT_STRING, AT(record), "FILE", "write the recording to FILE" \
	}
#define OPTION_MAX_RATE                                                               \
	{                                                                             \
		"max-rate", 0, OPT_COUNT, AT(max_rate), "N",                          \
			"pause above N hits a second (default: 1000; 0: never pause)" \
	}
#define OPTION_VERBOSE                                          \
	{                                                       \
		"verbose", 'v', OPT_FLAG, AT(verbose), NULL,    \
			"print the full bookkeeping at the end" \
	}

/* Of watch. */
#define OPTION_FROM                                                                      \
	{                                                                                \
		"from", 0, OPT_STRING, AT(from), "FUNC[:ret]",                           \
			"watch each object that FUNC gets (arg0->x) or returns (ret->x)" \
	}
#define OPTION_UNTIL                                                                       \
	{                                                                                  \
		"until", 0, OPT_STRING, AT(until), "FUNC[:argN]",                          \
			"with --from: release an object when FUNC gets it (default: arg0)" \
	}
#define OPTION_MULTIPLEX                                                         \
	{                                                                        \
		"multiplex", 0, OPT_SLICE, AT(slice_ns), "TIME",                 \
			"share the debug registers in time slices, such as 10ms" \
	}
#define OPTION_THREAD                                                  \
	{                                                              \
		"thread", 't', OPT_STRING, AT(thread), "TID|NAME",     \
			"choose the thread of a thread-local variable" \
	}
#define OPTION_ON                                                                         \
	{                                                                                 \
		"on", 0, OPT_CHOICE, AT(on), "r|w|rw", "choose the accesses (default: w)" \
	}
#define OPTION_KERNEL                                                          \
	{                                                                      \
		"kernel", 'k', OPT_FLAG, AT(kernel), NULL,                     \
			"report accesses by system calls too, such as read(2)" \
	}
#define OPTION_NO_BPF                                                     \
	{                                                                 \
		"no-bpf", 0, OPT_FLAG, AT(no_bpf), NULL, "do not use BPF" \
	}
#define WATCH_ALIASES                                      \
	{ "at", 0, "from" }, { "rotate", 0, "multiplex" }, \
	{                                                  \
		"on=wr", 0, "rw"                           \
	}
#define EXPR_TEXT                                                                                    \
	"EXPR is a variable or a path that begins with one: counter, server.clients, conn->state,\n" \
	"table[3].next, file.c:count, ns::Class::total, libc.so.6:environ, symbol+16, 0xADDRESS,\n"  \
	"*(struct foo *)0xADDRESS. A suffix :N chooses N bytes. Quote what the shell would read."

/* Of break. */
#define OPTION_ARGS                                                          \
	{                                                                    \
		"args", 'a', OPT_FLAG, AT(args), NULL, "print the arguments" \
	}
#define OPTION_RET                                                                           \
	{                                                                                    \
		"ret", 'r', OPT_FLAG, AT(ret), NULL, "print each call's result and duration" \
	}
#define OPTION_INLINED                                                        \
	{                                                                     \
		"inlined", 0, OPT_FLAG, AT(inlined), NULL,                    \
			"with a pattern: include inlined copies of functions" \
	}
#define LOCATION_TEXT                                                                            \
	"LOCATION is a function, file:line, 0xADDRESS, function+offset, object:function, or a\n" \
	"pattern such as 'conn_*' or 'libc.so.6:mem*'."

#endif
