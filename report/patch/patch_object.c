/* SPDX-License-Identifier: MIT */
/* patch_object.c - see patch_object.h. */
#include "report/patch/patch_object.h"

#include "report/safe/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <trapline/tools.h>

#define RECORDS_MAX 384
#define NAMES_MAX 4096

#if defined(__x86_64__)
#define PATCH_MACHINE EM_X86_64
#define PATCH_RELATIVE R_X86_64_RELATIVE
#define PATCH_SYMBOLIC R_X86_64_64
#else
#define PATCH_MACHINE EM_AARCH64
#define PATCH_RELATIVE R_AARCH64_RELATIVE
#define PATCH_SYMBOLIC R_AARCH64_ABS64
#endif

/* A list of names, which stay until the command ends. */
struct names {
	const char **name;
	size_t count;
};

struct patch_object {
	const char *name;
	int fd;
	size_t size;
	uint8_t *bytes; /* of that file */
	Elf *elf;
	GElf_Shdr section;
	struct patch_record *records;
	size_t count;
	struct names undefined;
	struct names needed;
	char *why;
	size_t why_size;
};

__attribute__((format(printf, 3, 4))) static int object_refuse(struct patch_object *o, int err,
							       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(o->why, o->why_size, format, args);
	va_end(args);
	return err;
}

/* The file may change or be cut while it is in use, so a copy is checked and loaded. */
static int object_copy(struct patch_object *o, const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	off_t at = 0;
	ssize_t n = 1;
	int err = 0;

	if (from < 0)
		return object_refuse(o, -errno, "cannot read %s: %s", path, strerror(errno));
	o->fd = memfd_create("trapline-patch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fstat(from, &st) || !S_ISREG(st.st_mode))
		err = object_refuse(o, -EINVAL, "cannot read %s: it is not a regular file", path);
	else if (st.st_size > (off_t)PATCH_OBJECT_BYTES_MAX)
		err = object_refuse(o, -EFBIG,
				    "%s has more than %u MiB; remove its debug information by "
				    "strip --strip-debug",
				    path, PATCH_OBJECT_BYTES_MAX >> 20);
	while (!err && at < st.st_size && n > 0)
		n = sendfile(o->fd, from, &at, (size_t)(st.st_size - at));
	if (!err && (o->fd < 0 || n < 0))
		err = object_refuse(o, -errno, "cannot copy %s: %s", path, strerror(errno));
	close(from);
	o->size = (size_t)at;
	return err;
}

static int object_map(struct patch_object *o, const char *path)
{
	if (!o->size)
		return object_refuse(o, -ENOEXEC, "%s is empty", path);
	if (fcntl(o->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		return object_refuse(o, -errno, "cannot copy %s: %s", path, strerror(errno));
	/* A private mapping: libelf may write to what it was given. */
	void *at = mmap(NULL, o->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, o->fd, 0);
	if (at == MAP_FAILED)
		return object_refuse(o, -errno, "cannot map %s: %s", path, strerror(errno));
	o->bytes = at;
	elf_version(EV_CURRENT);
	o->elf = elf_memory((char *)o->bytes, o->size);
	if (!o->elf || elf_kind(o->elf) != ELF_K_ELF)
		return object_refuse(o, -ENOEXEC,
				     "%s is not a shared object; build it with cc -shared -fPIC",
				     path);
	return 0;
}

static bool object_is_program(struct patch_object *o)
{
	GElf_Phdr ph;
	size_t n = 0;

	elf_getphdrnum(o->elf, &n);
	for (size_t i = 0; i < n; i++)
		if (gelf_getphdr(o->elf, (int)i, &ph) && ph.p_type == PT_INTERP)
			return true;
	return false;
}

static int object_check_kind(struct patch_object *o, const char *path)
{
	GElf_Ehdr eh;

	if (!gelf_getehdr(o->elf, &eh))
		return object_refuse(o, -ENOEXEC, "%s is damaged: %s", path, elf_errmsg(-1));
	if (gelf_getclass(o->elf) != ELFCLASS64 || eh.e_machine != PATCH_MACHINE)
		return object_refuse(o, -ENOEXEC,
				     "%s is for another processor (%d-bit, ELF machine %d); build "
				     "it for this one",
				     path, gelf_getclass(o->elf) == ELFCLASS32 ? 32 : 64,
				     eh.e_machine);
	if (eh.e_type == ET_REL)
		return object_refuse(o, -ENOEXEC, "%s is not linked; link it with cc -shared",
				     path);
	if (eh.e_type != ET_DYN || object_is_program(o))
		return object_refuse(o, -ENOEXEC,
				     "%s is a program, not a shared object; build it with cc "
				     "-shared -fPIC",
				     path);
	return 0;
}

static int names_add(struct names *list, const char *name)
{
	if (list->count == NAMES_MAX)
		return 0;
	const char **more = realloc(list->name, (list->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	list->name = more;
	list->name[list->count++] = clean_keep(name);
	return 0;
}

static int object_read_undefined(struct patch_object *o, const GElf_Shdr *sh, Elf_Data *data)
{
	GElf_Sym sym;
	int err = 0;

	for (int i = 1; !err && data && gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(o->elf, sh->sh_link, sym.st_name);
		if (name && *name && sym.st_shndx == SHN_UNDEF &&
		    GELF_ST_BIND(sym.st_info) == STB_GLOBAL)
			err = names_add(&o->undefined, name);
	}
	return err;
}

static int object_read_needed(struct patch_object *o, const GElf_Shdr *sh, Elf_Data *data)
{
	GElf_Dyn dyn;
	int err = 0;

	for (int i = 0; !err && data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		const char *name = dyn.d_tag == DT_NEEDED ?
					   elf_strptr(o->elf, sh->sh_link, dyn.d_un.d_val) :
					   NULL;
		if (name)
			err = names_add(&o->needed, name);
	}
	return err;
}

/* The section with the records, and what the loader will look for. */
static int object_read_sections(struct patch_object *o)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;
	int err = 0;

	if (elf_getshdrstrndx(o->elf, &names))
		return -ENOEXEC;
	while (!err && (scn = elf_nextscn(o->elf, scn))) {
		if (!gelf_getshdr(scn, &sh))
			continue;
		const char *name = elf_strptr(o->elf, names, sh.sh_name);
		if (name && !strcmp(name, TRAPLINE_PATCH_SECTION) && sh.sh_flags & SHF_ALLOC)
			o->section = sh;
		if (sh.sh_type == SHT_DYNSYM)
			err = object_read_undefined(o, &sh, elf_getdata(scn, NULL));
		else if (sh.sh_type == SHT_DYNAMIC)
			err = object_read_needed(o, &sh, elf_getdata(scn, NULL));
	}
	return err;
}

/* n bytes of the object as it is loaded; NULL: the file does not have them. */
static const void *object_at(const struct patch_object *o, uint64_t address, size_t n)
{
	GElf_Phdr ph;
	size_t count = 0;

	elf_getphdrnum(o->elf, &count);
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(o->elf, (int)i, &ph) || ph.p_type != PT_LOAD ||
		    address < ph.p_vaddr || address - ph.p_vaddr >= ph.p_filesz ||
		    n > ph.p_filesz - (address - ph.p_vaddr))
			continue;
		uint64_t at = ph.p_offset + (address - ph.p_vaddr);
		return at <= o->size && n <= o->size - at ? o->bytes + at : NULL;
	}
	return NULL;
}

/* A name that is read to its end, which is inside the file. */
static const char *object_text(const struct patch_object *o, uint64_t address)
{
	const char *text = object_at(o, address, 1);

	return text && memchr(text, 0, (size_t)(o->bytes + o->size - (const uint8_t *)text)) ?
		       text :
		       NULL;
}

struct bound {
	uint64_t value;
	const char *symbol; /* NULL: the location is bound to this object itself */
};

/* What a relocation stores. */
static void object_bind(struct patch_object *o, const GElf_Rela *r, Elf_Scn *symbols,
			struct bound *out)
{
	Elf_Data *data = symbols ? elf_getdata(symbols, NULL) : NULL;
	GElf_Shdr sh;
	GElf_Sym sym;

	out->value = (uint64_t)r->r_addend;
	if (GELF_R_TYPE(r->r_info) != PATCH_SYMBOLIC || !data || !gelf_getshdr(symbols, &sh) ||
	    !gelf_getsym(data, (int)GELF_R_SYM(r->r_info), &sym))
		return;
	out->value += sym.st_value;
	if (GELF_ST_BIND(sym.st_info) != STB_LOCAL)
		out->symbol = elf_strptr(o->elf, sh.sh_link, sym.st_name);
}

/* The pointer that a location has when the object is loaded, as an address in the object. */
static struct bound object_pointer(struct patch_object *o, uint64_t place)
{
	struct bound found = { 0, NULL };
	const void *now = object_at(o, place, sizeof(found.value));
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	GElf_Rela r;

	/* Packed relocations (RELR) have their value at the address that they change. */
	if (now)
		memcpy(&found.value, now, sizeof(found.value));
	while ((scn = elf_nextscn(o->elf, scn))) {
		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_RELA || !(sh.sh_flags & SHF_ALLOC))
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getrela(data, i, &r); i++)
			if (r.r_offset == place)
				object_bind(o, &r, elf_getscn(o->elf, sh.sh_link), &found);
	}
	return found;
}

/* *out stays NULL where the record has no such text. */
static int object_read_text(struct patch_object *o, uint64_t place, const char **out)
{
	const struct bound text = object_pointer(o, place);

	if (!text.value)
		return 0;
	const char *found = object_text(o, text.value);
	if (!found || !found[0] || strlen(found) > PATCH_OBJECT_NAME_MAX)
		return -ENOEXEC;
	*out = clean_keep(found);
	return 0;
}

/* *bytes: of the record. */
static int object_read_record(struct patch_object *o, const char *path, uint64_t at, uint64_t left,
			      uint64_t *bytes)
{
	struct trapline_patch_record raw;
	const void *found = object_at(o, at, sizeof(raw));
	struct patch_record *r = &o->records[o->count];

	if (!found || left < sizeof(raw))
		return object_refuse(o, -ENOEXEC, "%s is damaged: a record is not in the file",
				     path);
	memcpy(&raw, found, sizeof(raw));
	if (raw.version != TRAPLINE_PATCH_RECORD_VERSION || raw.bytes < sizeof(raw) ||
	    raw.bytes > left)
		return object_refuse(o, -ENOEXEC,
				     "%s was built for another version of trapline: its records "
				     "have version %u, not %u; build it again",
				     path, raw.version, TRAPLINE_PATCH_RECORD_VERSION);
	const struct bound target =
		object_pointer(o, at + offsetof(struct trapline_patch_record, address));
	r->kind = raw.kind;
	r->target = target.value;
	r->target_is = target.symbol ? clean_keep(target.symbol) : NULL;
	if (object_read_text(o, at + offsetof(struct trapline_patch_record, name), &r->name) ||
	    object_read_text(o, at + offsetof(struct trapline_patch_record, text), &r->text))
		return object_refuse(o, -ENOEXEC,
				     "%s has a record with a name that is empty, or longer than %d "
				     "bytes",
				     path, PATCH_OBJECT_NAME_MAX);
	if (!r->name &&
	    (r->kind == TRAPLINE_PATCH_RECORD_FUNCTION || r->kind == TRAPLINE_PATCH_RECORD_OLD ||
	     r->kind == TRAPLINE_PATCH_RECORD_FOR))
		return object_refuse(o, -ENOEXEC, "%s has a record without a name", path);
	*bytes = raw.bytes;
	o->count++;
	return 0;
}

static int object_read_records(struct patch_object *o, const char *path)
{
	uint64_t size = o->section.sh_size;
	uint64_t bytes;
	int err = 0;

	if (!size)
		return object_refuse(o, -ENOENT,
				     "%s replaces nothing; name a function by TRAPLINE_PATCH() in "
				     "its source (see trapline-patch(1))",
				     path);
	o->records = calloc(RECORDS_MAX, sizeof(*o->records));
	if (!o->records)
		return object_refuse(o, -ENOMEM, "out of memory");
	for (uint64_t at = 0; at < size && !err; at += bytes) {
		bytes = size;
		if (o->count == RECORDS_MAX)
			return object_refuse(o, -E2BIG,
					     "%s has more than %u records; make two objects of it",
					     path, RECORDS_MAX);
		err = object_read_record(o, path, o->section.sh_addr + at, size - at, &bytes);
	}
	return err;
}

int patch_object_open(const char *path, struct patch_object **out, char *why, size_t n)
{
	struct patch_object *o = calloc(1, sizeof(*o));
	const char *slash = strrchr(path, '/');

	if (!o) {
		snprintf(why, n, "out of memory");
		return -ENOMEM;
	}
	o->fd = -1;
	o->why = why;
	o->why_size = n;
	o->name = clean_keep(slash ? slash + 1 : path);
	int err = object_copy(o, path);
	if (!err)
		err = object_map(o, path);
	if (!err)
		err = object_check_kind(o, path);
	if (!err) {
		err = object_read_sections(o);
		if (err)
			object_refuse(o, err, "%s is damaged: %s", path, strerror(-err));
	}
	if (!err)
		err = object_read_records(o, path);
	if (err)
		patch_object_close(o);
	else
		*out = o;
	return err;
}

void patch_object_close(struct patch_object *o)
{
	if (!o)
		return;
	elf_end(o->elf);
	if (o->bytes)
		munmap(o->bytes, o->size);
	if (o->fd >= 0)
		close(o->fd);
	free(o->records);
	free(o->undefined.name);
	free(o->needed.name);
	free(o);
}

const char *patch_object_name(const struct patch_object *o)
{
	return o->name;
}

int patch_object_fd(const struct patch_object *o)
{
	return o->fd;
}

int patch_object_take_init(struct patch_object *o, struct patch_init *init)
{
	const int copy = patch_init_take(o->elf, o->fd, o->size, init);

	if (copy < 0)
		return copy;
	close(o->fd);
	o->fd = copy;
	return 0;
}

uint64_t patch_object_section(const struct patch_object *o, uint64_t *bytes)
{
	*bytes = o->section.sh_size;
	return o->section.sh_addr;
}

size_t patch_object_count(const struct patch_object *o)
{
	return o->count;
}

const struct patch_record *patch_object_record(const struct patch_object *o, size_t i)
{
	return i < o->count ? &o->records[i] : NULL;
}

/* A symbol with this address, or with this name and ".cold" behind it. */
static bool object_find(const struct patch_object *o, uint64_t address, const char *cold,
			GElf_Sym *out, const char **name)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t n = cold ? strlen(cold) : 0;

	while ((scn = elf_nextscn(o->elf, scn))) {
		if (!gelf_getshdr(scn, &sh) ||
		    (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM))
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 1; data && gelf_getsym(data, i, out); i++) {
			*name = elf_strptr(o->elf, sh.sh_link, out->st_name);
			if (!*name || !**name || GELF_ST_TYPE(out->st_info) != STT_FUNC ||
			    out->st_shndx == SHN_UNDEF)
				continue;
			if (cold ? !strncmp(*name, cold, n) && !strcmp(*name + n, ".cold") :
				   out->st_value == address)
				return true;
		}
	}
	return false;
}

bool patch_object_function(const struct patch_object *o, uint64_t address, const char **name,
			   uint64_t *bytes)
{
	GElf_Sym sym;
	const char *found;

	if (!object_find(o, address, NULL, &sym, &found))
		return false;
	*name = clean_keep(found);
	*bytes = sym.st_size;
	return true;
}

bool patch_object_part(const struct patch_object *o, const char *name, uint64_t *address,
		       uint64_t *bytes)
{
	GElf_Sym sym;
	const char *found;

	if (!object_find(o, 0, name, &sym, &found))
		return false;
	*address = sym.st_value;
	*bytes = sym.st_size;
	return true;
}

const char *patch_object_undefined(const struct patch_object *o, size_t i)
{
	return i < o->undefined.count ? o->undefined.name[i] : NULL;
}

const char *patch_object_needed(const struct patch_object *o, size_t i)
{
	return i < o->needed.count ? o->needed.name[i] : NULL;
}
