/* SPDX-License-Identifier: MIT */
/*
 * symbols.c - the loaded objects of a process, and addresses for names.
 *
 * Every ELF file is opened as soon as its mapping is seen, because names are still needed after the
 * target has exited. Objects are added and never removed: their strings stay valid, and a hit in a
 * library that was unloaded still gets its name.
 */
#include "base/clock.h"
#include "base/grow.h"
#include "base/maps.h"
#include "report/dwarf/debuginfod.h"
#include "report/dwarf/go.h"
#include "report/dwarf/symbols_priv.h"
#include "report/dwarf/versions.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"
#include "report/safe/target_file.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Code made at run time has no object: do not read the map again for each of its addresses. */
#define REFRESH_INTERVAL_NS 100000000u

const char *symbols_module_name(Dwfl_Module *mod)
{
	void **userdata;
	const char *name = dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);

	if (!name)
		return NULL;
	const struct symbols *s = *userdata;
	if (s && s->alias[0] && !strcmp(name, s->exe))
		return s->alias;
	if (!strncmp(name, "[vdso", 5))
		return "[vdso]";
	return clean_name(basename(name));
}

/* Reads the mappings of files. The kernel lists them by address. */
static void read_mappings(struct symbols *s)
{
	struct mapping m;
	size_t room = 0;
	struct maps maps;
	char name[8];

	s->mapping_count = 0;
	maps_open(&maps, s->pid, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));) {
		if (name[0] != '/')
			continue;
		m = (struct mapping){
			.start = row->start,
			.end = row->end,
			.offset = row->offset,
			.inode = row->inode,
			.is_code = row->mode[2] == 'x',
			.is_constant = row->mode[1] != 'w' && row->mode[3] == 'p',
		};
		if (grow_room(s->mappings, s->mapping_count, room))
			break;
		s->mappings[s->mapping_count++] = m;
	}
	maps_close(&maps);
}

static int mapping_compare(const void *a, const void *b)
{
	const struct mapping *x = a;
	const struct mapping *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/*
 * The file behind the mapping that starts at base, no matter what its name leads to by now. It
 * needs the right to look into any process.
 */
static int open_mapped(const struct symbols *s, uint64_t base, char *path, size_t n)
{
	const struct mapping key = { .start = base };
	const struct mapping *m = s->mapping_count ? bsearch(&key, s->mappings, s->mapping_count,
							     sizeof(key), mapping_compare) :
						     NULL;

	if (!m)
		return -1;
	snprintf(path, n, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, s->pid, m->start, m->end);
	return target_file_open(path);
}

/* Does the name lead to the file that is open? Debug information is looked for beside a name. */
static bool is_named(const char *path, int fd)
{
	struct stat named;
	struct stat opened;

	return !stat(path, &named) && !fstat(fd, &opened) && named.st_dev == opened.st_dev &&
	       named.st_ino == opened.st_ino;
}

static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	struct symbols *s = *userdata;
	char mapped[96];
	char path[4352];

	if (name[0] != '/' || !s)
		return dwfl_linux_proc_find_elf(mod, userdata, name, base, file_name, elf);
	target_file_name(s->root, name, path, sizeof(path));

	int fd = open_mapped(s, base, mapped, sizeof(mapped));
	if (fd >= 0 && !is_named(path, fd))
		snprintf(path, sizeof(path), "%s", mapped);
	if (fd < 0)
		fd = target_file_open(path);
	if (fd < 0 && !strcmp(name, s->exe)) {
		snprintf(path, sizeof(path), "/proc/%d/exe", s->pid);
		fd = target_file_open(path);
	}
	if (fd >= 0)
		*file_name = strdup(path);
	return fd < 0 ? -1 : fd;
}

static int open_module(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		       void *arg)
{
	GElf_Addr bias;

	*userdata = arg;
	dwfl_module_getelf(mod, &bias);
	return DWARF_CB_OK;
}

static int read_map(struct symbols *s)
{
	BUSY;
	dwfl_report_begin_add(s->dwfl);
	int err = dwfl_linux_proc_report(s->dwfl, s->pid);
	dwfl_report_end(s->dwfl, NULL, NULL);
	if (err)
		return err > 0 ? -err : -EIO;
	read_mappings(s);
	dwfl_getmodules(s->dwfl, open_module, s, 0);
	return 0;
}

bool symbols_refresh(struct symbols *s)
{
	uint64_t now = clock_now_ns();

	if (!s->pid)
		return false; /* a set of files: there is no map */
	if (now - s->refreshed_ns < REFRESH_INTERVAL_NS)
		return false;
	s->refreshed_ns = now;
	read_map(s);
	return true;
}

static void read_identity(struct symbols *s)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", s->pid);
	if (readlink(path, s->exe, sizeof(s->exe) - 1) < 0)
		s->exe[0] = 0;
	s->root = target_file_is_foreign(s->pid) ? s->pid : 0;
}

bool symbols_is_system(const char *module)
{
	static const char *const names[] = { "libc.so",	 "libc-",	 "libpthread",
					     "ld-linux", "ld-musl",	 "libc.musl",
					     "libc++",	 "libstdc++.so", "libtrapline-guard.so" };

	for (size_t i = 0; module && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(module, names[i], strlen(names[i])))
			return true;
	return symbols_is_agent(module);
}

bool symbols_is_agent(const char *module)
{
	return module &&
	       (!strncmp(module, "memfd:trapline-agent-", 21) || !strcmp(module, SYMBOLS_AGENT));
}

const char *symbols_program(const struct symbols *s)
{
	return s->alias[0] ? s->alias : s->exe[0] ? basename(s->exe) : "the program";
}

static int first_visit(Dwfl_Module *mod, void *arg)
{
	*(Dwfl_Module **)arg = mod;
	return 1;
}

Dwfl_Module *symbols_first_module(struct symbols *s, const char *module)
{
	Dwfl_Module *mod = NULL;

	symbols_each_module(s, module, first_visit, &mod);
	return mod;
}

/* The program's own file, which comes first; NULL: not known. */
static Elf *program_elf(struct symbols *s, Dwfl_Module **mod)
{
	GElf_Addr bias;

	*mod = symbols_first_module(s, NULL);
	const char *path = *mod ? dwfl_module_info(*mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL) :
				  NULL;
	return path && !strcmp(path, s->exe) ? dwfl_module_getelf(*mod, &bias) : NULL;
}

int symbols_is_stripped(struct symbols *s)
{
	Dwfl_Module *mod;
	Dwarf_Addr bias;
	Elf_Scn *section = NULL;
	Elf *elf = program_elf(s, &mod);
	GElf_Shdr header;

	if (!elf || dwfl_module_getdwarf(mod, &bias))
		return 0;
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			return 0;
	return 1;
}

int symbols_is_32bit(struct symbols *s)
{
	Dwfl_Module *mod;

	if (!s->elf_class) {
		Elf *elf = program_elf(s, &mod);
		s->elf_class = elf ? gelf_getclass(elf) : ELFCLASS64;
	}
	return s->elf_class == ELFCLASS32;
}

/*
 * Debian's redis-server is a link to redis-check-rdb: people know the name they called. Taken
 * only where it leads to the same file, so never the name of a script.
 */
static void read_alias(struct symbols *s)
{
	char called[512];
	char path[1100];
	char real[PATH_MAX];
	Elf64_auxv_t aux;

	snprintf(path, sizeof(path), "/proc/%d/auxv", s->pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	called[0] = 0;
	while (fread(&aux, sizeof(aux), 1, f) == 1)
		if (aux.a_type == AT_EXECFN)
			symbols_read_string(s, aux.a_un.a_val, called, sizeof(called));
	fclose(f);
	if (!called[0])
		return;
	if (called[0] == '/')
		snprintf(path, sizeof(path), "%s", called);
	else
		snprintf(path, sizeof(path), "/proc/%d/cwd/%s", s->pid, called);
	const char *slash = strrchr(path, '/');
	if (realpath(path, real) && !strcmp(real, s->exe))
		snprintf(s->alias, sizeof(s->alias), "%.63s", slash + 1);
	clean_text(s->alias);
}

int symbols_open_empty(struct symbols **out)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (s) {
		s->callbacks.find_elf = find_elf;
		s->callbacks.find_debuginfo = dwfl_standard_find_debuginfo;
		s->dwfl = dwfl_begin(&s->callbacks);
	}
	if (!s || !s->dwfl) {
		free(s);
		return -ENOMEM;
	}
	symbols_unwind_attach(s);
	*out = s;
	return 0;
}

int symbols_open(pid_t pid, struct symbols **out)
{
	struct symbols *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	if (!s)
		return -ENOMEM;
	s->pid = pid;
	s->callbacks.find_elf = find_elf;
	s->callbacks.find_debuginfo = debuginfod_find;
	s->callbacks.debuginfo_path = &s->debug_path;
	read_identity(s);
	read_alias(s);
	/* In a container the debug files are its own. */
	if (s->root && asprintf(&s->debug_path, TARGET_FILE_DEBUG_PATH, pid) < 0)
		s->debug_path = NULL;
	s->dwfl = dwfl_begin(&s->callbacks);
	if (!s->dwfl)
		goto out_free;
	err = read_map(s);
	if (err)
		goto out_dwfl;
	symbols_unwind_attach(s);
	*out = s;
	return 0;

out_dwfl:
	dwfl_end(s->dwfl);
out_free:
	if (s->has_memory)
		close(s->memory_fd);
	free(s->mappings);
	free(s->debug_path);
	free(s);
	return err;
}

void symbols_on_close(struct symbols *s, void (*forget)(struct symbols *s))
{
	size_t i = 0;

	while (i < SYMBOLS_ON_CLOSE_MAX && s->on_close[i] && s->on_close[i] != forget)
		i++;
	assert(i < SYMBOLS_ON_CLOSE_MAX);
	s->on_close[i] = forget;
}

void symbols_close(struct symbols *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < SYMBOLS_ON_CLOSE_MAX && s->on_close[i]; i++)
		s->on_close[i](s);
	dwfl_end(s->dwfl);
	if (s->has_memory)
		close(s->memory_fd);
	free(s->mappings);
	free(s->moves);
	free(s->debug_path);
	free(s);
}

static bool name_is(const char *name, const char *wanted)
{
	size_t n = strlen(wanted);

	if (strpbrk(wanted, "*?["))
		return !fnmatch(wanted, name, 0);
	if (strncmp(name, wanted, n) != 0)
		return false;
	return !name[n] || name[n] == '.' || name[n] == '-' || name[n] == ' ';
}

/* `libc` names libc.so.6 and libc-2.31.so too, and `libruby*` names libruby-3.1.so.3.1.7. */
static bool module_is(Dwfl_Module *mod, const char *wanted)
{
	const char *shown = symbols_module_name(mod);
	const char *path = dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	const char *slash = path ? strrchr(path, '/') : NULL;

	return (shown && name_is(shown, wanted)) || (slash && name_is(slash + 1, wanted));
}

struct each {
	struct symbols *s;
	const char *module;
	bool program; /* this round is for the program itself, the next for its libraries */
	int (*visit)(Dwfl_Module *mod, void *arg);
	void *arg;
	int result;
};

static int each_module(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		       void *arg)
{
	struct each *e = arg;

	if (!strcmp(name, e->s->exe) != e->program)
		return DWARF_CB_OK;
	if (e->module && !module_is(mod, e->module))
		return DWARF_CB_OK;
	e->result = e->visit(mod, e->arg);
	return e->result ? DWARF_CB_ABORT : DWARF_CB_OK;
}

int symbols_each_module(struct symbols *s, const char *module,
			int (*visit)(Dwfl_Module *mod, void *arg), void *arg)
{
	BUSY;
	struct each e = { .s = s, .module = module, .visit = visit, .arg = arg };

	for (int round = 0; round < 2 && !e.result; round++) {
		e.program = round == 0;
		dwfl_getmodules(s->dwfl, each_module, &e, 0);
	}
	return e.result;
}

struct walk {
	struct symbols *s;
	symbol_visitor visit;
	void *arg;
};

static int symbols_walk_module(Dwfl_Module *mod, void *arg)
{
	struct walk *w = arg;
	int count = dwfl_module_getsymtab(mod);

	for (int i = 1; i < count; i++) {
		GElf_Sym sym;
		GElf_Addr address;
		GElf_Word section;
		const char *symbol = clean_symbol(mod, i, &sym, &address, &section);
		if (!symbol || !*symbol || section == SHN_UNDEF)
			continue;
		int result = w->visit(mod, symbol, &sym, address, w->arg);
		if (result)
			return result;
	}
	return go_walk(w->s, mod, w->visit, w->arg);
}

int symbols_walk(struct symbols *s, const char *module, symbol_visitor visit, void *arg)
{
	struct walk w = { s, visit, arg };

	return symbols_each_module(s, module, symbols_walk_module, &w);
}

bool symbols_is_shared(struct symbols *s, uint64_t address)
{
	struct maps_row row;

	return !maps_find(s->pid, address, NULL, 0, &row) && row.mode[3] == 's';
}

struct object_names {
	const char **names;
	size_t n;
	size_t count;
};

static int object_visit(Dwfl_Module *mod, void *arg)
{
	struct object_names *o = arg;
	const char *name = symbols_module_name(mod);

	if (name && name[0] != '[' && o->count < o->n)
		o->names[o->count++] = name;
	return 0;
}

size_t symbols_objects(struct symbols *s, const char **names, size_t n)
{
	struct object_names o = { .names = names, .n = n };

	symbols_each_module(s, NULL, object_visit, &o);
	return o.count;
}

struct search {
	struct symbols *s;
	const char *name;
	size_t len;
	bool demangle;
	Dwfl_Module *mod; /* that has the local found so far */
	struct variable *out;
	bool has_local;
	bool has_tls;
	bool ambiguous;
};

static bool name_matches(const struct search *f, const char *name)
{
	/* Linkers keep versions in .symtab: environ@@GLIBC_2.2.5 */
	if (!strncmp(name, f->name, f->len) && (!name[f->len] || name[f->len] == '@'))
		return true;
	if (!f->demangle)
		return false;
	char *readable = symbols_demangle(name);
	bool match = readable && !strcmp(readable, f->name);
	free(readable);
	return match;
}

static int symbols_search_visit(Dwfl_Module *mod, const char *name, const GElf_Sym *sym,
				uint64_t address, void *arg)
{
	struct search *f = arg;
	int type = GELF_ST_TYPE(sym->st_info);

	if (f->has_local && f->mod != mod)
		return 1; /* a local of an earlier object wins over all later objects */
	if (type == STT_SECTION || type == STT_FILE || !name_matches(f, name))
		return 0;
	GElf_Addr bias = 0;
	dwfl_module_getelf(mod, &bias);
	if (type == STT_TLS) {
		if (!f->has_tls && !f->has_local)
			*f->out = (struct variable){ .address = sym->st_value,
						     .object = bias,
						     .size = sym->st_size,
						     .module = symbols_module_name(mod) };
		f->has_tls = true;
		return 0;
	}
	bool local = GELF_ST_BIND(sym->st_info) == STB_LOCAL;
	/* With a version it is found by versions_find(); without one it may have several. */
	uint64_t size = sym->st_size;
	if (!local)
		address = versions_meant(f->s, mod, f->name, address, &size);
	if (local && f->has_local) {
		if (f->out->address != address)
			f->ambiguous = true;
		return 0;
	}
	*f->out = (struct variable){
		.address = address,
		.size = size,
		.object = bias,
		.is_function = type == STT_FUNC || type == STT_GNU_IFUNC,
		.module = symbols_module_name(mod),
	};
	f->mod = mod;
	f->has_local = local;
	f->ambiguous = f->ambiguous && local;
	return !local;
}

static int search_run(struct symbols *s, const char *module, struct search *f)
{
	int found = symbols_walk(s, module, symbols_search_visit, f);

	if (!found && !f->has_local)
		return f->has_tls ? -EDOM : -ENOENT;
	return f->ambiguous ? -ENOTUNIQ : 0;
}

/* A ':' that is not one of C++'s "::". */
static const char *module_end(const char *name)
{
	const char *colon = strchr(name, ':');

	return colon && colon != name && colon[1] != ':' ? colon : NULL;
}

int symbols_find(struct symbols *s, const char *name, struct variable *out)
{
	const char *colon = module_end(name);
	char *module = NULL;
	struct variable found = { 0 };

	if (colon) {
		module = strndup(name, (size_t)(colon - name));
		if (!module)
			return -ENOMEM;
		name = colon + 1;
	}
	int err = strchr(name, '@') ? versions_find(s, module, name, &found) : -ENOENT;
	if (err == -EINVAL)
		err = -ENOENT;
	/* Demangling every symbol takes long in a large program: only when nothing else fits. */
	for (int demangle = 0; err == -ENOENT && demangle < 2; demangle++) {
		struct search f = { .s = s,
				    .name = name,
				    .len = strlen(name),
				    .out = &found,
				    .demangle = demangle };
		err = search_run(s, module, &f);
	}
	free(module);
	if (!err || err == -ENOTUNIQ || err == -EDOM)
		*out = found;
	return err;
}
