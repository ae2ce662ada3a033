/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - names for addresses of a running process, and addresses for names.
 *
 * It uses elfutils (libdwfl). Only the command uses it, never code inside a target. Objects that
 * the target loads later are found when an unknown address causes the map to be read again.
 */
#ifndef REPORT_DWARF_SYMBOLS_H
#define REPORT_DWARF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct symbols;

/* Where code or data is. Strings live until symbols_close(); NULL when unknown. */
struct place {
	const char *function;  /* demangled where C++ or Rust */
	const char *symbol;    /* the same as the file has it; NULL for an inlined one */
	const char *same_code; /* other functions that the code is of: `a and b`; NULL: none */
	uint64_t offset;       /* bytes after the start of function */
	const char *module;    /* file name of the loaded object, no folders */
	uint64_t module_offset;
	const char *file;  /* source file, when DWARF is there */
	int line;	   /* 0: unknown */
	int function_line; /* where the function begins, by symbols_frames() alone; 0: unknown */
};

/* The symbol of a name. size 0: the symbol table does not have it. */
struct variable {
	uint64_t address;
	uint64_t size;
	uint64_t object; /* where its object was loaded: the bias of its addresses */
	int is_function;
	const char *module;
};

/*
 * The symbols of a process whose map is not known. One of its objects is known by the code at
 * address, which the process `like` has at address - shift: only that object has names. As
 * symbols_open_empty().
 */
int symbols_open_like(struct symbols *like, uint64_t address, uint64_t shift, struct symbols **out);

/* Read the loaded objects of pid. *out is released by symbols_close(). 0 or -errno. */
int symbols_open(pid_t pid, struct symbols **out);
/* Without objects: addresses have no names. 0 or -ENOMEM. */
int symbols_open_empty(struct symbols **out);
void symbols_close(struct symbols *s);

/* A file that a process has mapped as code. */
struct symbols_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	uint64_t inode;
	const char *path;
};
/* Code of a process that other symbols have at its address + shift. */
struct symbols_move {
	uint64_t start;
	uint64_t end;
	uint64_t shift;
};
struct symbols_files;
struct kept_files;

/*
 * Files of any processes, each once and at an address that no process has. first: the symbols of a
 * process whose program is called as there, or NULL. *out is released by symbols_files_close(). 0
 * or -ENOMEM.
 */
int symbols_files_open(const struct symbols *first, struct symbols_files **out);
void symbols_files_close(struct symbols_files *f);
/* Their symbols, which have no process. */
struct symbols *symbols_files_symbols(const struct symbols_files *f);
/*
 * Where these symbols have a mapping; the file is added if need be. One of `kept`, which may be
 * NULL, needs no name any more. 0; -ENOENT: it cannot be read, or there are too many.
 */
int symbols_files_move(struct symbols_files *f, const struct symbols_mapping *m,
		       const struct kept_files *kept, struct symbols_move *out);

/*
 * The symbols of a process, which may have ended, whose code `like` has elsewhere; `like` is closed
 * later. Code that is made at run time has names while it lives. 0 or -ENOMEM.
 */
int symbols_open_moved(struct symbols *like, pid_t pid, const struct symbols_move *moves, size_t n,
		       struct symbols **out);

/*
 * The address of a symbol: `name` or `module:name` (libc.so.6:errno_table). Debug files by
 * build-id or .gnu_debuglink are used where installed. Global before local, the program before
 * its libraries. -ENOENT: not found; -ENOTUNIQ: several local symbols of that name, *out is the
 * first. -EDOM: a thread-local symbol, out->address is its offset in its object's block.
 */
int symbols_find(struct symbols *s, const char *name, struct variable *out);

/* Read the target's map again; false when it was read a moment ago. */
bool symbols_refresh(struct symbols *s);

/* Copy memory of the target as it is now. 0, -EFAULT, or -EACCES: not permitted. */
int symbols_read(struct symbols *s, uint64_t address, void *buf, size_t n);

/* Is the memory at an address shared, so that other processes may write it? */
bool symbols_is_shared(struct symbols *s, uint64_t address);

/* From now on memory is that of another process with the same layout, such as a child. */
void symbols_read_from(struct symbols *s, pid_t pid);

/* Memory as it was at a hit, as far as it was copied there. */
struct symbols_copies {
	/* *out has that many bytes of the address; 0: there is no copy of it. */
	size_t (*find)(const void *hit, uint64_t address, const void **out);
	const void *hit;
	bool missed; /* becomes true when memory is read as it is now */
};
/* What values lead to is read there first, until this is called with NULL. */
void symbols_use_copies(struct symbols *s, struct symbols_copies *copies);
/* As symbols_read(), from the copies where they have all of it. */
int symbols_read_copied(struct symbols *s, uint64_t address, void *buf, size_t n);

/* A string in the target, as much of it as can be read and fits; always NUL-terminated. */
void symbols_read_string(struct symbols *s, uint64_t address, char *buf, size_t n);

#define SYMBOLS_AGENT "libtrapline-agent.so"
/* Is that the name of Trapline's own code in a target? A user does not mean it. NULL: no. */
bool symbols_is_agent(const char *module);
/* The same of the C and the C++ library and the dynamic linker too. */
bool symbols_is_system(const char *module);

/* What messages call the program: its file name without folders. */
const char *symbols_program(const struct symbols *s);

/*
 * The file names of the objects that are files, no folders, the program first: n at most. Returns
 * how many.
 */
size_t symbols_objects(struct symbols *s, const char **names, size_t n);

/* Has the program neither a symbol table nor debug information? What it exports has names still. */
int symbols_is_stripped(struct symbols *s);

/* Is the program 32-bit code in a 64-bit system? Its pointers and registers are read wrong. */
int symbols_is_32bit(struct symbols *s);

/* Up to n names of data that resemble name, best first; returns how many. */
size_t symbols_near(struct symbols *s, const char *name, const char **names, size_t n);
/* The same of the program alone, without its libraries. */
size_t symbols_near_own(struct symbols *s, const char *name, const char **names, size_t n);

/* The location of a code address. Fills what it can; always returns with valid members. */
void symbols_place(struct symbols *s, uint64_t address, struct place *out);
/* From now on no location has a line: the debug information of an object may take long to read. */
void symbols_leave_out_lines(struct symbols *s);

/*
 * The functions that are inlined at a code address, innermost first, and last the one they are
 * in; the lines are those of the calls. Returns how many, at most n, at least 1.
 */
size_t symbols_frames(struct symbols *s, uint64_t address, struct place *out, size_t n);

/* Is the code at an address Go's? Its runtime moves stacks, and knows each return address. */
int symbols_is_go(struct symbols *s, uint64_t address);

/* The data symbol that contains an address, e.g. to print `server+0x230`. As symbols_place(). */
void symbols_data_place(struct symbols *s, uint64_t address, struct place *out);

/*
 * Return addresses of a thread from its registers (by DWARF number, as trapline_hit_register)
 * and a copy of the stack memory at sp, by DWARF or frame pointers. frames[0] is the pc.
 * Returns how many were found, at most n. Call-site addresses are as on the stack (after the
 * call); use address - 1 for frames other than the first.
 */
size_t symbols_unwind(struct symbols *s, const uint64_t *regs, size_t reg_count, const void *stack,
		      size_t stack_len, uint64_t sp, uint64_t *frames, size_t n);

#endif
