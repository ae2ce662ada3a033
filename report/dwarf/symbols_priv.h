/* SPDX-License-Identifier: MIT */
/* symbols_priv.h - what the files of the symbols module share. */
#ifndef REPORT_DWARF_SYMBOLS_PRIV_H
#define REPORT_DWARF_SYMBOLS_PRIV_H

#include "report/dwarf/symbols.h"

#include <elfutils/libdwfl.h>
#include <stdbool.h>

/* A mapping of a file. */
struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	uint64_t inode;
	bool is_code;
	bool is_constant; /* nothing writes there, but a debugger or a patch */
};

#define SYMBOLS_ON_CLOSE_MAX 16 /* files that keep something in struct symbols: 9 */

struct symbols {
	/* For a process whose code other symbols know: where each piece is in these. */
	struct symbols *like;
	const char *like_module; /* the only object of them that it has; NULL: all */
	struct symbols_move *moves;
	size_t move_count;
	Dwfl *dwfl;
	Dwfl_Callbacks callbacks; /* dwfl keeps a pointer to them */
	char *debug_path;
	pid_t pid;
	pid_t root;	 /* the process whose names of files are meant; 0: those of this one */
	bool can_unwind; /* dwfl_attach_state() worked */
	char exe[512];	 /* of the program itself, as in /proc/PID/maps */
	char alias[64];	 /* how the program was called, when that is a link to exe */
	void *places;	 /* tsearch() tree of struct cached_place, by address */
	size_t place_count;
	void *frame_cache;	       /* of struct cached_frames, by address */
	struct types *types;	       /* made at first use */
	struct units *units;	       /* of each module without .debug_aranges: see unit.h */
	struct go_table *go;	       /* of each object that was asked for */
	struct ada_object *ada;	       /* the same */
	struct inlined_names *inlined; /* of each object: see code_inlined.c */
	struct same_names *same_names; /* of each object: see same_code.c */
	struct jit_map *jit;	       /* made when an address is in no object */
	struct mapping *mappings;      /* of files, by address, when the map was read last */
	size_t mapping_count;
	int elf_class; /* of the program; 0: not looked up */
	bool leaves_out_lines;
	bool has_memory;	       /* memory_fd is open */
	pid_t memory_pid;	       /* whose memory; 0: that of pid */
	struct symbols_copies *copies; /* NULL: memory is read as it is now */
	int memory_fd;		       /* of the target */
	uint64_t refreshed_ns;
	/* The thread that is being unwound: valid inside symbols_unwind() only. */
	const uint64_t *regs;
	size_t reg_count;
	const unsigned char *stack;
	size_t stack_len;
	uint64_t sp;
	uint64_t *frames;
	size_t frame_count;
	size_t frame_max;
	void (*on_close[SYMBOLS_ON_CLOSE_MAX])(struct symbols *s); /* NULL: no more */
};

/*
 * Visit the objects, or those that `module` names; the program first. Not 0 ends and is returned.
 */
int symbols_each_module(struct symbols *s, const char *module,
			int (*visit)(Dwfl_Module *mod, void *arg), void *arg);
/* The first of these; NULL: it is not known. */
Dwfl_Module *symbols_first_module(struct symbols *s, const char *module);

/* Called for each defined symbol; a value other than 0 ends the walk and is returned. */
typedef int (*symbol_visitor)(Dwfl_Module *mod, const char *name, const GElf_Sym *sym,
			      uint64_t address, void *arg);

/* Walk the symbols of all objects, or of those that `module` names; the program's first. */
int symbols_walk(struct symbols *s, const char *module, symbol_visitor visit, void *arg);

/* File name of a module without folders; lives as long as the module. */
const char *symbols_module_name(Dwfl_Module *mod);

/* Attach the unwinder's callbacks; needs at least one module. */
void symbols_unwind_attach(struct symbols *s);

/* The object that contains an address; NULL: none. */
Dwfl_Module *symbols_module_of(struct symbols *s, uint64_t address);

/* The readable form of a mangled name, to be freed; NULL when it is not mangled. */
char *symbols_demangle(const char *name);

/* A name of Rust's v0 scheme, or NULL; and the escapes of its older one. */
char *demangle_rust(const char *name);
char *demangle_d(const char *name);
/* Is it a symbol of D? Its parts have dots between them. */
bool demangle_is_d(const char *name);
void demangle_rust_escapes(char *name);

/* Where the other symbols have an address; false: it is in no object. */
bool symbols_moved(const struct symbols *s, uint64_t address, uint64_t *to);
/* As symbols_unwind(), by the tables of the other symbols. */
size_t symbols_unwind_moved(struct symbols *s, const uint64_t *regs, size_t reg_count,
			    const unsigned char *stack, size_t stack_len, uint64_t sp,
			    uint64_t *frames, size_t n);

/*
 * symbols_close() calls `forget`, while the objects still exist. A file that keeps something in s
 * asks for it; a second call with the same function adds nothing.
 */
void symbols_on_close(struct symbols *s, void (*forget)(struct symbols *s));

#endif
