/* SPDX-License-Identifier: MIT */
/*
 * signature_c.c - where functions of C and C++ have arguments and results: the System V convention
 * of x86-64, and that of arm64. What it does not know has no location, and nor has what depends on
 * it.
 */
#include "report/lang/signature_priv.h"

#include "report/dwarf/dies.h"
#include "report/dwarf/types_priv.h"
#include "report/lang/value.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <string.h>

#if defined(__x86_64__)
static const uint8_t argument_registers[] = { 5, 4, 1, 2, 8, 9 };
static const uint8_t result_registers[] = { 0, 1 };
#define VECTOR_ARGUMENTS 8
#define STACK_FIRST 8 /* behind the return address */
#define HIDDEN_RESULT_TAKES_ARGUMENT 1
#define IS_X86 true
#else
static const uint8_t argument_registers[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const uint8_t result_registers[] = { 0, 1 };
#define VECTOR_ARGUMENTS 8
#define STACK_FIRST 0
#define HIDDEN_RESULT_TAKES_ARGUMENT 0 /* x8 */
#define IS_X86 false
#endif

#define ARGUMENT_REGISTERS (sizeof(argument_registers) / sizeof(argument_registers[0]))
#define DEPTH_MAX 16

int signature_argument_register(unsigned int n)
{
	return n < ARGUMENT_REGISTERS ? argument_registers[n] : -1;
}

/* How a value travels. */
struct passing {
	enum passing_how {
		PASSING_UNKNOWN,
		PASSING_NOTHING, /* it is empty */
		PASSING_REGISTERS,
		PASSING_MEMORY,	 /* a copy on the stack; a result: by its address */
		PASSING_ADDRESS, /* its address in a general register */
		PASSING_X87,	 /* a result alone */
		PASSING_NULL,	 /* a nullptr_t: the register need not have it */
	} how;
	bool is_used[2];    /* each eightbyte: it is not only padding */
	bool is_general[2]; /* else it is in a vector register */
	bool is_one_vector; /* both are in one */
	unsigned int align; /* on the stack */
	bool has_unknown;
	bool has_wide_float;
	bool is_misaligned;
	bool has_float;
	unsigned int leaves;
};

static unsigned int leaf_align(const struct value_leaf *leaf)
{
	uint64_t size = leaf->type->size;

	if (leaf->type->kind == TYPE_ARRAY || !size || size & (size - 1))
		return 1;
	if (leaf->type->form == TYPE_FORM_MEMBER)
		return 8;
	return size < 16 ? (unsigned int)size : 16;
}

static int leaf_visit(const struct value_leaf *leaf, void *arg)
{
	struct passing *p = arg;
	bool is_unknown = !leaf->type || (leaf->type->kind == TYPE_UNKNOWN &&
					  leaf->type->form != TYPE_FORM_MEMBER);

	p->leaves++;
	if (is_unknown) {
		p->has_unknown = true;
		return 0;
	}
	bool is_float = leaf->type->kind == TYPE_FLOAT;
	unsigned int align = leaf->bit_size ? 1 : leaf_align(leaf);
	p->is_misaligned = p->is_misaligned || leaf->offset % align;
	p->align = align > p->align ? align : p->align;
	p->has_float = p->has_float || is_float;
	p->has_wide_float = p->has_wide_float || (is_float && leaf->len > 8);
	for (uint64_t at = leaf->offset; at < leaf->offset + leaf->len && at < 16; at++) {
		p->is_used[at / 8] = true;
		p->is_general[at / 8] = p->is_general[at / 8] || !is_float;
	}
	return 0;
}

/*
 * A number of the machine that is larger than a register, or is passed unlike others of its size.
 */
static bool has_vector(const struct type *t, unsigned int depth)
{
	size_t n;
	const struct type_member *m = type_members(t, &n);

	if (t->form == TYPE_FORM_VECTOR || depth > DEPTH_MAX)
		return true;
	if (t->kind == TYPE_ARRAY)
		return has_vector(type_target(t), depth + 1);
	for (size_t i = 0; i < n; i++)
		if (!m[i].vtable_offset && has_vector(m[i].type, depth + 1))
			return true;
	return false;
}

static bool type_die_of(Dwarf_Die *die, Dwarf_Die *out)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, out))
		return false;
	for (unsigned int depth = 0; depth < 4 * DEPTH_MAX; depth++) {
		int tag = dwarf_tag(out);
		/* With -fdebug-types-section the definition is in a unit of its own. */
		if (dwarf_attr(out, DW_AT_signature, &attr))
			return dwarf_formref_die(&attr, out) != NULL;
		if (tag != DW_TAG_typedef && tag != DW_TAG_const_type &&
		    tag != DW_TAG_volatile_type && tag != DW_TAG_array_type)
			return true;
		if (!dwarf_attr_integrate(out, DW_AT_type, &attr) || !dwarf_formref_die(&attr, out))
			return false;
	}
	return false;
}

/* How a class of C++ goes: as its members state, or by its address, since copying it is code. */
enum class_way {
	CLASS_AS_MEMBERS,
	CLASS_BY_ADDRESS,
	CLASS_UNKNOWN,
};

struct class_facts {
	bool is_told; /* whether a function is defaulted: DWARF 5 */
	bool has_copy_left;
	bool has_copy_deleted;
	enum class_way way;
};

static bool is_template(Dwarf_Die *method)
{
	Dwarf_Die child;

	if (dwarf_child(method, &child))
		return false;
	do
		if (dwarf_tag(&child) == DW_TAG_template_type_parameter ||
		    dwarf_tag(&child) == DW_TAG_template_value_parameter)
			return true;
	while (!dwarf_siblingof(&child, &child));
	return false;
}

/* Its first parameter behind the object is a reference to the class. */
static bool takes_its_class(Dwarf_Die *method, Dwarf_Die *class)
{
	Dwarf_Attribute attr;
	Dwarf_Die parameter;
	Dwarf_Die type;

	if (dwarf_child(method, &parameter))
		return false;
	while (dwarf_tag(&parameter) != DW_TAG_formal_parameter ||
	       die_flag(&parameter, DW_AT_artificial))
		if (dwarf_siblingof(&parameter, &parameter))
			return false;
	if (!dwarf_attr(&parameter, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &type) ||
	    (dwarf_tag(&type) != DW_TAG_reference_type &&
	     dwarf_tag(&type) != DW_TAG_rvalue_reference_type))
		return false;
	return type_die_of(&type, &parameter) && parameter.addr == class->addr;
}

/* A constructor has the name of its class. */
static bool is_constructor(const char *name, const char *class_name)
{
	size_t n = class_name ? strcspn(class_name, "<") : 0;

	return n && !strncmp(name, class_name, n) && (!name[n] || name[n] == '<');
}

static void read_method(Dwarf_Die *method, Dwarf_Die *class, struct class_facts *f)
{
	const char *name = clean_die_name(method);
	uint64_t defaulted = 0;

	if (dwarf_hasattr(method, DW_AT_virtuality))
		f->way = CLASS_BY_ADDRESS;
	bool is_end = name && name[0] == '~';
	bool is_copy = name && !is_end && is_constructor(name, clean_die_name(class)) &&
		       !is_template(method) && takes_its_class(method, class);
	if ((!is_end && !is_copy) || die_flag(method, DW_AT_artificial))
		return;
	if (is_copy && die_flag(method, DW_AT_deleted)) {
		f->has_copy_deleted = true;
		return;
	}
	f->has_copy_left = f->has_copy_left || is_copy;
	die_number(method, DW_AT_defaulted, &defaulted);
	if (defaulted == DW_DEFAULTED_in_class || f->way == CLASS_BY_ADDRESS)
		return;
	f->way = f->is_told ? CLASS_BY_ADDRESS : CLASS_UNKNOWN;
}

static enum class_way class_way_of(Dwarf_Die *class, unsigned int depth)
{
	struct class_facts f = { 0 };
	uint64_t convention;
	Dwarf_Half version;
	Dwarf_Die child;
	Dwarf_Die type;

	if (die_number(class, DW_AT_calling_convention, &convention))
		return convention == DW_CC_pass_by_reference ? CLASS_BY_ADDRESS : CLASS_AS_MEMBERS;
	if (depth > DEPTH_MAX || die_flag(class, DW_AT_declaration))
		return CLASS_UNKNOWN;
	f.is_told = !dwarf_cu_info(class->cu, &version, NULL, NULL, NULL, NULL, NULL, NULL) &&
		    version >= 5;
	if (dwarf_child(class, &child))
		return CLASS_AS_MEMBERS;
	do {
		int tag = dwarf_tag(&child);
		bool is_part = (tag == DW_TAG_member && !die_flag(&child, DW_AT_external)) ||
			       tag == DW_TAG_inheritance;
		if (tag == DW_TAG_subprogram)
			read_method(&child, class, &f);
		else if (tag == DW_TAG_inheritance && dwarf_hasattr(&child, DW_AT_virtuality))
			f.way = CLASS_BY_ADDRESS;
		if (is_part && f.way != CLASS_BY_ADDRESS && type_die_of(&child, &type)) {
			enum class_way way = class_way_of(&type, depth + 1);
			f.way = way != CLASS_AS_MEMBERS ? way : f.way;
		}
	} while (!dwarf_siblingof(&child, &child));
	if (f.has_copy_deleted && !f.has_copy_left)
		f.way = CLASS_BY_ADDRESS;
	return f.way;
}

/* By what debug information states of a class. False: its members decide. */
static bool passing_by_class(Dwarf_Die *type, struct passing *p)
{
	uint64_t align;

	if (die_flag(type, DW_AT_declaration))
		return true; /* unknown */
	if (die_number(type, DW_AT_alignment, &align) && align > p->align) {
		if (align > 16)
			return true;
		p->align = (unsigned int)align;
	}
	enum class_way way = die_is_cplusplus(type) ? class_way_of(type, 0) : CLASS_AS_MEMBERS;
	if (way == CLASS_BY_ADDRESS)
		p->how = PASSING_ADDRESS;
	return way != CLASS_AS_MEMBERS;
}

static void passing_of_members(const struct type *t, Dwarf_Die *type, struct passing *p)
{
	bool is_empty_class = type && die_is_cplusplus(type) && t->size == 1;

	if (type && passing_by_class(type, p))
		return;
	value_leaves(t, 0, t->size, leaf_visit, p);
	if (p->has_unknown || has_vector(t, 0))
		return;
	if (!t->size || (is_empty_class && !p->leaves)) {
		p->how = PASSING_NOTHING;
		return;
	}
	if (!IS_X86) {
		bool is_simple = !p->has_float && p->align <= 8 && p->leaves;
		p->how = !is_simple    ? PASSING_UNKNOWN :
			 t->size <= 16 ? PASSING_REGISTERS :
					 PASSING_ADDRESS;
		return;
	}
	p->how = t->size > 16 || p->is_misaligned || p->has_wide_float ? PASSING_MEMORY :
		 p->is_used[0]					       ? PASSING_REGISTERS :
									 PASSING_UNKNOWN;
	if (p->has_wide_float && p->leaves == 1 && t->size == 16)
		p->how = PASSING_X87;
}

static void passing_of_float(const struct type *t, struct passing *p)
{
	p->how = PASSING_REGISTERS;
	if (t->size <= 8)
		return;
	p->align = 16;
	p->is_one_vector = t->form != TYPE_FORM_X87 && t->size == 16;
	if (!p->is_one_vector)
		p->how = t->form == TYPE_FORM_X87 && t->size == 16 ? PASSING_X87 : PASSING_UNKNOWN;
}

static struct passing passing_of(const struct type *t, Dwarf_Die *type)
{
	struct passing p = { .align = 8 };
	bool is_null = strstr(t->name, "nullptr") != NULL;

	if (!type_has_members(t))
		p.is_used[0] = p.is_used[1] = true;

	switch (t->kind) {
	case TYPE_STRUCT:
	case TYPE_UNION:
		passing_of_members(t, type, &p);
		break;
	case TYPE_FLOAT:
		passing_of_float(t, &p);
		break;
	case TYPE_ARRAY:
		if (t->form != TYPE_FORM_VECTOR || (t->size != 8 && t->size != 16))
			break;
		p.how = PASSING_REGISTERS;
		p.is_one_vector = true;
		p.align = (unsigned int)t->size;
		break;
	case TYPE_UNKNOWN:
		if (t->form != TYPE_FORM_DECIMAL && t->form != TYPE_FORM_MEMBER && !is_null)
			break;
		p.how = is_null ? PASSING_NULL : PASSING_REGISTERS;
		p.is_general[0] = p.is_general[1] = t->form != TYPE_FORM_DECIMAL;
		p.is_one_vector = t->form == TYPE_FORM_DECIMAL && t->size == 16;
		p.align = p.is_one_vector ? 16 : 8;
		break;
	default:
		p.is_general[0] = p.is_general[1] = true;
		p.how = t->size <= 16 && t->size ? PASSING_REGISTERS : PASSING_UNKNOWN;
		p.align = t->size > 8 ? 16 : 8;
		if (!IS_X86 && t->size > 8)
			p.how = PASSING_UNKNOWN; /* a pair that begins at an even number */
	}
	p.is_used[1] = p.is_used[1] && t->size > 8 && !p.is_one_vector;
	p.is_general[1] = p.is_general[1] && p.is_used[1];
	return p;
}

static void place_on_stack(struct convention *c, struct signature_value *v, uint64_t size,
			   unsigned int align)
{
	c->stack = (c->stack + align - 1) / align * align;
	v->where = SIGNATURE_STACK;
	v->stack = STACK_FIRST + c->stack;
	c->stack += (size + 7) / 8 * 8;
}

/* LLVM before 18 puts one half of it in the last register, and aligns it unlike the convention. */
static bool is_split(Dwarf_Die *die, const struct type *t)
{
	Dwarf_Die cu;
	Dwarf_Attribute attr;

	if (t->kind != TYPE_INTEGER || t->size <= 8 || !dwarf_diecu(die, &cu, NULL, NULL) ||
	    !dwarf_attr(&cu, DW_AT_producer, &attr))
		return false;
	const char *producer = clean_attribute(&attr);
	return !producer || strstr(producer, "clang") != NULL;
}

/* One half in a vector register, which a hit does not have, and one in another, which it has. */
static void place_halves(struct signature_value *v, const struct passing *p, uint8_t general,
			 uint8_t vector)
{
	v->where = SIGNATURE_PIECES;
	v->regs = 0;
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t rest = v->type->size - (uint64_t)i * 8;
		struct signature_piece piece = {
			.kind = p->is_general[i] ? SIGNATURE_PIECE_REGISTER :
						   SIGNATURE_PIECE_VECTOR,
			.reg = p->is_general[i] ? general : vector,
			.size = (uint8_t)(rest < 8 ? rest : 8),
			.offset = (uint16_t)(i * 8),
		};
		signature_piece_add(v, &piece);
	}
}

static void place_in_registers(struct convention *c, struct signature_value *v,
			       const struct passing *p, unsigned int general, unsigned int vector)
{
	v->where = vector ? SIGNATURE_VECTOR : SIGNATURE_REGISTERS;
	if (p->how == PASSING_ADDRESS)
		v->where = SIGNATURE_MEMORY;
	for (unsigned int i = 0; i < general; i++)
		v->reg[v->regs++] = argument_registers[c->general + i];
	if (general && vector)
		place_halves(v, p, v->reg[0], (uint8_t)c->vector);
	v->vector = (uint8_t)c->vector;
	v->vectors = (uint8_t)vector;
	c->general += general;
	c->vector += vector;
}

void signature_c_argument(struct convention *c, struct signature_value *v, Dwarf_Die *die)
{
	Dwarf_Die type;
	struct passing p = passing_of(v->type, type_die_of(die, &type) ? &type : NULL);
	unsigned int general = p.is_general[0] + p.is_general[1];
	unsigned int vector = p.is_used[0] + p.is_used[1] - general;
	uint64_t size = v->type->size;

	v->where = SIGNATURE_UNKNOWN;
	if (p.how == PASSING_UNKNOWN)
		c->is_lost = true;
	if (c->is_lost)
		return;
	if (p.how == PASSING_NOTHING) {
		v->where = SIGNATURE_PIECES;
		return;
	}
	if (p.how == PASSING_ADDRESS) {
		general = 1;
		vector = 0;
		size = 8;
		p.align = 8;
	}
	if (p.how == PASSING_NULL) {
		v->where = SIGNATURE_CONSTANT;
		if (c->general < ARGUMENT_REGISTERS)
			c->general++;
		else
			c->stack += 8;
		return;
	}
	bool in_memory = p.how == PASSING_MEMORY || p.how == PASSING_X87;
	bool fits = c->general + general <= ARGUMENT_REGISTERS &&
		    c->vector + vector <= VECTOR_ARGUMENTS;
	if (!in_memory && fits) {
		place_in_registers(c, v, &p, general, vector);
		return;
	}
	c->is_lost = is_split(die, v->type);
	if (!IS_X86 && general > 1)
		c->general = ARGUMENT_REGISTERS; /* what comes later is on the stack too */
	if (!c->is_lost)
		place_on_stack(c, v, size, p.align);
	/* There it is known by its address alone, which is not followed. */
	if (p.how == PASSING_ADDRESS && v->where == SIGNATURE_STACK)
		v->where = SIGNATURE_UNKNOWN;
}

void signature_c_result(struct convention *c, struct signature_value *v, Dwarf_Die *die)
{
	Dwarf_Die type;
	struct passing p = passing_of(v->type, type_die_of(die, &type) ? &type : NULL);

	v->where = SIGNATURE_REGISTERS;
	if (v->type->kind == TYPE_VOID)
		return;
	if (v->type->form == TYPE_FORM_COMPLEX && v->type->size == 32 && IS_X86)
		p.how = PASSING_X87;
	switch (p.how) {
	case PASSING_NOTHING:
		v->where = SIGNATURE_PIECES;
		return;
	case PASSING_NULL:
		v->where = SIGNATURE_CONSTANT;
		return;
	case PASSING_X87:
		v->where = SIGNATURE_VECTOR;
		v->vector = SIGNATURE_X87;
		return;
	case PASSING_ADDRESS:
	case PASSING_MEMORY:
		v->where = SIGNATURE_MEMORY; /* its address comes back */
		v->reg[v->regs++] = result_registers[0];
		c->general += HIDDEN_RESULT_TAKES_ARGUMENT;
		return;
	case PASSING_UNKNOWN:
		/* Whether its address takes the first register is not known. */
		v->where = SIGNATURE_UNKNOWN;
		c->is_lost = true;
		return;
	default:
		break;
	}
	unsigned int general = 0;
	for (unsigned int i = 0; i < 2; i++)
		if (p.is_general[i])
			v->reg[v->regs++] = result_registers[general++];
		else if (p.is_used[i]) {
			v->where = SIGNATURE_VECTOR;
			v->vectors++;
		}
	if (general && v->where == SIGNATURE_VECTOR)
		place_halves(v, &p, result_registers[0], 0);
}
