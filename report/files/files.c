/* SPDX-License-Identifier: MIT */
/* files.c - see files.h. */
#include "report/files/files.h"

#include "report/dwarf/debuginfod.h"
#include "report/dwarf/dies.h"
#include "report/dwarf/symbols_priv.h"
#include "report/dwarf/unit.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"
#include "report/safe/target_file.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Away from 0, where addresses without a meaning lie. A program that is not position-independent
 * keeps its own addresses. */
#define SHARED_OBJECT_BASE 0x10000000000u

/*
 * The target is not a process of Trapline: nothing is looked for beside the files that were given.
 */
static int find_no_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		       char **file_name, Elf **elf)
{
	return -1;
}

/* The descriptor is closed by dwfl, or here. */
static Dwfl_Module *report(struct symbols *s, const char *path, int fd)
{
	void **userdata;

	if (fd < 0)
		fd = target_file_open(path);
	if (fd < 0)
		return NULL;
	dwfl_report_begin(s->dwfl);
	Dwfl_Module *mod = dwfl_report_elf(s->dwfl, path, path, fd, SHARED_OBJECT_BASE, true);
	dwfl_report_end(s->dwfl, NULL, NULL);
	if (!mod) {
		close(fd);
		return NULL;
	}
	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = s;
	return mod;
}

static void close_kept(int fd)
{
	if (fd >= 0)
		close(fd);
}

int files_open(const char *name, pid_t root, struct symbols **out, uint64_t *bias)
{
	return files_open_kept(name, -1, root, out, bias);
}

int files_open_kept(const char *name, int fd, pid_t root, struct symbols **out, uint64_t *bias)
{
	BUSY;
	struct symbols *s = calloc(1, sizeof(*s));
	char path[PATH_MAX];
	GElf_Addr found;

	if (!s) {
		close_kept(fd);
		return -ENOMEM;
	}
	s->root = root;
	target_file_name(root, name, path, sizeof(path));
	s->callbacks.find_elf = find_no_elf;
	s->callbacks.find_debuginfo = debuginfod_find;
	s->callbacks.debuginfo_path = &s->debug_path;
	if (root && asprintf(&s->debug_path, TARGET_FILE_DEBUG_PATH, root) < 0)
		s->debug_path = NULL;
	s->dwfl = dwfl_begin(&s->callbacks);
	if (!s->dwfl) {
		free(s->debug_path);
		free(s);
		close_kept(fd);
		return -ENOMEM;
	}
	Dwfl_Module *mod = report(s, path, fd);
	if (!mod || !dwfl_module_getelf(mod, &found)) {
		symbols_close(s);
		return -ENOENT;
	}
	*out = s;
	*bias = found;
	return 0;
}

struct build_id {
	char *text;
	size_t n;
};

static int take_build_id(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			 void *arg)
{
	const struct build_id *out = arg;
	const unsigned char *bits;
	GElf_Addr address;
	int length = dwfl_module_build_id(mod, &bits, &address);

	for (int i = 0; i < length && 2 * (size_t)i + 2 < out->n; i++)
		snprintf(out->text + 2 * i, out->n - 2 * (size_t)i, "%02x", bits[i]);
	return DWARF_CB_ABORT;
}

void files_build_id(struct symbols *s, char *text, size_t n)
{
	struct build_id out = { text, n };

	*text = '\0';
	dwfl_getmodules(s->dwfl, take_build_id, &out, 0);
}

bool files_source(struct symbols *s, uint64_t address, char *path, size_t n)
{
	BUSY;
	const char *folder = NULL;
	int line = 0;
	const char *file = unit_line(dwfl_addrmodule(s->dwfl, address), address, &line, &folder);

	if (!file)
		return false;
	if (*file == '/')
		folder = NULL;
	/* A build that hides its folders has them relative, and then before the name already. */
	if (folder && *folder != '/' && !strncmp(file, folder, strlen(folder)))
		folder = NULL;
	snprintf(path, n, "%s%s%s", folder ? folder : "", folder ? "/" : "", file);
	return true;
}

static bool says_atomic(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *linkage = NULL;
	const char *name = clean_die_name(die);

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute))
		linkage = clean_attribute(&attribute);
	return (name && strstr(name, "atomic")) || (linkage && strstr(linkage, "atomic"));
}

/* Beginnings, in C++ and Rust also after an opening bracket: <std::sync::mpmc::..>::send. */
static const char *const locking_names[] = {
	"std::sync::",
	"core::sync::",
	"alloc::sync::",
	"std::sys::sync::",
	"crossbeam",
	"parking_lot",
	"rayon_core::",
	"tokio::sync::",
	"tokio::runtime::",
	"once_cell::",
	"lock_api::",
	"std::atomic",
	"std::__atomic",
	"std::mutex",
	"std::call_once",
	"std::_Sp_counted_base",
	"std::__future_base",
	"tbb::",
	"folly::",
	"boost::lockfree",
	"boost::atomics",
	"boost::detail::sp_counted",
	"absl::Mutex",
	"absl::synchronization_internal",
	"absl::base_internal",
	"moodycamel::",
	"__cxa_guard_",
	"__gthread",
	"pthread_",
	"g_once_",
	"g_atomic_",
	"g_mutex_",
	"rcu_",
	"urcu_",
	"cds_",
	"ck_",
	"uatomic_",
	"__gnu_cxx::__exchange_and_add",
	"__gnu_cxx::__atomic_add",
	"_Py_atomic",
	"take_gil",
	"drop_gil",
	"omp_",
	"GOMP_",
	"__kmp",
};

int files_is_locking(const char *name)
{
	for (size_t i = 0; i < sizeof(locking_names) / sizeof(locking_names[0]); i++) {
		size_t n = strlen(locking_names[i]);
		const char *at = name + (name[0] == '<');

		if (!strncmp(at, locking_names[i], n))
			return 1;
	}
	/* Rust's newer mangling, which no library here reads. */
	return !strncmp(name, "_R", 2) &&
	       (strstr(name, "4core4sync") || strstr(name, "3std4sync") ||
		strstr(name, "5alloc4sync") || strstr(name, "9crossbeam"));
}

static bool says_locking(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute))
		name = clean_attribute(&attribute);
	if (!name)
		name = clean_die_name(die);
	if (!name)
		return false;
	char *readable = symbols_demangle(name);
	bool is = files_is_locking(readable ? readable : name);
	free(readable);
	return is;
}

void files_scope(struct symbols *s, uint64_t address, struct files_scope *out)
{
	BUSY;
	Dwarf_Addr bias;
	Dwarf_Die scopes[DIE_SCOPES_MAX];
	bool is_inlined = false;
	Dwarf_Die *cu = unit_at(dwfl_addrmodule(s->dwfl, address), address, &bias);

	memset(out, 0, sizeof(*out));
	if (!cu)
		return;
	/* What is inlined states it all: the function around it uses it. */
	for (int i = die_scopes(cu, address - bias, scopes); i-- > 0 && !is_inlined;) {
		int tag = dwarf_tag(&scopes[i]);

		is_inlined = tag == DW_TAG_inlined_subroutine;
		if (!is_inlined && tag != DW_TAG_subprogram)
			continue;
		out->is_atomic |= says_atomic(&scopes[i]);
		out->is_locking |= says_locking(&scopes[i]);
		/* The innermost one, for the line of an address is in that. */
		if (!out->function_line)
			dwarf_decl_line(&scopes[i], &out->function_line);
	}
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) &&
	       dwarf_formref_die(&attribute, type);
}

/* Not in what a template is made for: std::__shared_ptr<T, __gnu_cxx::_S_atomic> is not atomic. */
static bool name_says_atomic(Dwarf_Die *type)
{
	const char *name = clean_die_name(type);
	size_t n = name ? strcspn(name, "<") : 0;

	return n && (memmem(name, n, "atomic", 6) || memmem(name, n, "Atomic", 6));
}

/* The member that contains a byte of a struct; *offset counts from it then. */
static bool find_member(Dwarf_Die *type, Dwarf_Word *offset, Dwarf_Die *out)
{
	Dwarf_Attribute attribute;
	Dwarf_Word start;
	Dwarf_Word size;
	Dwarf_Die member;
	Dwarf_Die inner;

	if (dwarf_child(type, &member))
		return false;
	do {
		int tag = dwarf_tag(&member);

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    !type_of(&member, &inner))
			continue;
		/* Members of a union have none. */
		start = 0;
		if (dwarf_attr(&member, DW_AT_data_member_location, &attribute) &&
		    dwarf_formudata(&attribute, &start))
			continue;
		if (dwarf_aggregate_size(&inner, &size) || *offset - start >= size)
			continue;
		*offset -= start;
		*out = member;
		return true;
	} while (!dwarf_siblingof(&member, &member));
	return false;
}

/*
 * What is the byte at offset declared as, through names, arrays and structs? volatile counts, since
 * that is how older programs state atomic.
 */
static enum files_meant meant_by_type(Dwarf_Die *die, Dwarf_Word offset)
{
	enum files_meant meant = FILES_PLAIN;
	Dwarf_Word size;
	Dwarf_Die type;
	Dwarf_Die element;

	for (int depth = 0; depth < 32 && type_of(die, &type); depth++) {
		switch (dwarf_tag(&type)) {
		case DW_TAG_atomic_type:
			return FILES_ATOMIC;
		case DW_TAG_volatile_type:
			meant = FILES_VOLATILE;
			break;
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
			if (name_says_atomic(&type))
				return FILES_ATOMIC;
			if (!find_member(&type, &offset, &element))
				return meant;
			type = element;
			break;
		case DW_TAG_array_type:
			if (type_of(&type, &element) && !dwarf_aggregate_size(&element, &size) &&
			    size)
				offset %= size;
			break;
		case DW_TAG_typedef:
			if (name_says_atomic(&type))
				return FILES_ATOMIC;
			break;
		case DW_TAG_const_type:
			break;
		default:
			return meant;
		}
		*die = type;
	}
	return meant;
}

static bool is_variable_at(Dwarf_Die *die, Dwarf_Addr address, Dwarf_Word *offset)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;
	Dwarf_Word size = 1;
	bool is_address;
	Dwarf_Die type;

	if (dwarf_tag(die) != DW_TAG_variable || !dwarf_attr(die, DW_AT_location, &attribute) ||
	    dwarf_getlocation(&attribute, &ops, &count) || count != 1)
		return false;
	Dwarf_Addr start = die_first_number(&attribute, ops, &is_address);
	if (!is_address)
		return false;
	if (dwarf_attr_integrate(die, DW_AT_type, &attribute) &&
	    dwarf_formref_die(&attribute, &type))
		dwarf_aggregate_size(&type, &size);
	*offset = address - start;
	return *offset < size;
}

/* Globals, and statics of functions. */
static bool files_find_variable(Dwarf_Die *parent, Dwarf_Addr address, int depth, Dwarf_Die *out,
				Dwarf_Word *offset)
{
	BUSY;
	Dwarf_Die die;

	if (depth > 8 || dwarf_child(parent, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);

		if (is_variable_at(&die, address, offset)) {
			*out = die;
			return true;
		}
		if ((tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block ||
		     tag == DW_TAG_namespace) &&
		    files_find_variable(&die, address, depth + 1, out, offset))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

enum files_meant files_meant_by_variable(struct symbols *s, uint64_t address)
{
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, address);
	Dwarf_Addr bias;
	Dwarf_Die *cu = NULL;
	Dwarf_Die variable;
	Dwarf_Word offset;

	while (mod && (cu = dwfl_module_nextcu(mod, cu, &bias)))
		if (files_find_variable(cu, address - bias, 0, &variable, &offset))
			return meant_by_type(&variable, offset);
	return FILES_PLAIN;
}

/* Through names, arrays and pointers. */
static bool leads_to_atomic(Dwarf_Die *die)
{
	Dwarf_Die type;
	Dwarf_Die next = *die;

	for (int depth = 0; depth < 32 && type_of(&next, &type); depth++) {
		switch (dwarf_tag(&type)) {
		case DW_TAG_atomic_type:
		case DW_TAG_volatile_type:
			return true;
		default:
			if (name_says_atomic(&type))
				return true;
			next = type;
		}
	}
	return false;
}

static bool has_atomic_name(Dwarf_Die *parent, const char *name, int depth)
{
	Dwarf_Die die;

	if (depth > 8 || dwarf_child(parent, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);
		const char *its = clean_die_name(&die);
		bool is_data = tag == DW_TAG_member || tag == DW_TAG_variable ||
			       tag == DW_TAG_formal_parameter;

		if (is_data && its && !strcmp(its, name) && leads_to_atomic(&die))
			return true;
		if (!is_data && has_atomic_name(&die, name, depth + 1))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

int files_is_atomic_name(struct symbols *s, uint64_t address, const char *name)
{
	BUSY;
	Dwarf_Addr bias;
	Dwarf_Die *cu = unit_at(dwfl_addrmodule(s->dwfl, address), address, &bias);

	return cu && *name && has_atomic_name(cu, name, 0);
}
