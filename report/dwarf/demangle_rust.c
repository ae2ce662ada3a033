/* SPDX-License-Identifier: MIT */
/*
 * demangle_rust.c - readable names of Rust: of the v0 scheme (RFC 2603), and the escapes of the
 * older one.
 *
 * The target chose the name. It refers to its own earlier parts, so that the output, the depth and
 * the steps are bounded. Lifetimes and hashes are left out, and `<Type>::method` is Type::method.
 */
#include "report/dwarf/symbols_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_MAX 4096
#define RUST_DEPTH_MAX 64
#define STEPS_MAX 20000

struct rust_name {
	const char *text; /* behind _R */
	size_t at;
	size_t used;
	unsigned int depth;
	unsigned int steps;
	bool is_silent; /* what is read is not printed */
	bool is_wrong;
	char out[OUTPUT_MAX];
};

struct rust_word {
	const char *text;
	size_t length;
	uint64_t number; /* that distinguishes words of the same text */
};

static void rust_path(struct rust_name *r);
static void rust_type(struct rust_name *r);

static void print(struct rust_name *r, const char *text, size_t n)
{
	if (r->is_silent || r->is_wrong)
		return;
	if (r->used + n >= sizeof(r->out)) {
		r->is_wrong = true;
		return;
	}
	memcpy(r->out + r->used, text, n);
	r->used += n;
}

static void say(struct rust_name *r, const char *text)
{
	print(r, text, strlen(text));
}

static bool eat(struct rust_name *r, char c)
{
	if (r->is_wrong || r->text[r->at] != c)
		return false;
	r->at++;
	return true;
}

static char next(struct rust_name *r)
{
	char c = r->is_wrong ? 0 : r->text[r->at];

	if (!c || ++r->steps > STEPS_MAX)
		r->is_wrong = true;
	else
		r->at++;
	return c;
}

static uint64_t base_62(struct rust_name *r)
{
	uint64_t value = 0;

	if (eat(r, '_'))
		return 0;
	while (!eat(r, '_')) {
		char c = next(r);
		uint64_t digit = isdigit((unsigned char)c) ? (uint64_t)(c - '0') :
				 islower((unsigned char)c) ? (uint64_t)(c - 'a') + 10 :
				 isupper((unsigned char)c) ? (uint64_t)(c - 'A') + 36 :
							     62;
		if (digit > 61)
			r->is_wrong = true;
		if (r->is_wrong)
			return 0;
		value = value * 62 + digit;
	}
	return value + 1;
}

static uint64_t marked_number(struct rust_name *r, char mark)
{
	return eat(r, mark) ? base_62(r) + 1 : 0;
}

static struct rust_word rust_word(struct rust_name *r)
{
	struct rust_word w = { .number = marked_number(r, 's') };
	size_t length = 0;

	eat(r, 'u'); /* punycode: shown as it is */
	if (!isdigit((unsigned char)r->text[r->at]))
		r->is_wrong = true;
	bool is_empty = eat(r, '0');
	while (!r->is_wrong && !is_empty && isdigit((unsigned char)r->text[r->at]) &&
	       length < OUTPUT_MAX)
		length = 10 * length + (size_t)(next(r) - '0');
	eat(r, '_');
	if (r->is_wrong || strnlen(r->text + r->at, length) < length) {
		r->is_wrong = true;
		return w;
	}
	w.text = r->text + r->at;
	w.length = length;
	r->at += length;
	return w;
}

/* An earlier part again. What is not printed need not be read again. */
static void again(struct rust_name *r, void (*read)(struct rust_name *))
{
	size_t tag = r->at - 1;
	uint64_t to = base_62(r);
	size_t back = r->at;

	if (r->is_wrong || to >= tag) {
		r->is_wrong = true;
		return;
	}
	if (r->is_silent)
		return;
	r->at = to;
	read(r);
	r->at = back;
}

static void nested(struct rust_name *r)
{
	char space = next(r);
	char number[32];

	rust_path(r);
	struct rust_word w = rust_word(r);
	if (r->is_wrong)
		return;
	if (!isupper((unsigned char)space)) {
		if (w.length)
			say(r, "::");
		print(r, w.text, w.length);
		return;
	}
	say(r, space == 'C' ? "::{closure" : space == 'S' ? "::{shim" : "::{");
	print(r, &space, space != 'C' && space != 'S');
	if (w.length)
		say(r, ":");
	print(r, w.text, w.length);
	snprintf(number, sizeof(number), "#%llu}", (unsigned long long)w.number);
	say(r, number);
}

static void constant(struct rust_name *r)
{
	if (eat(r, 'B')) {
		again(r, constant);
		return;
	}
	char type = next(r);
	if (type == 'p') {
		say(r, "_");
		return;
	}
	bool is_negative = eat(r, 'n');
	const char *digits = r->text + r->at;
	size_t n = strspn(digits, "0123456789abcdef");
	if (r->is_wrong || !strchr("abchijlmnostxy", type) || digits[n] != '_' || n > 16) {
		r->is_wrong = true;
		return;
	}
	r->at += n + 1;
	char text[32];
	uint64_t value = strtoull(digits, NULL, 16);
	snprintf(text, sizeof(text), "%s%llu", is_negative ? "-" : "", (unsigned long long)value);
	say(r, type != 'b' ? text : value ? "true" : "false");
}

/* What is between < and >, or ( and ), up to an E. */
static size_t list(struct rust_name *r, void (*read)(struct rust_name *), const char *between)
{
	size_t count = 0;

	while (!r->is_wrong && !eat(r, 'E')) {
		if (eat(r, 'L')) {
			base_62(r);
			continue;
		}
		if (count++)
			say(r, between);
		if (eat(r, 'K'))
			constant(r);
		else
			read(r);
	}
	return count;
}

static void instance(struct rust_name *r)
{
	rust_path(r);
	size_t before = r->used;
	say(r, "<");
	if (!list(r, rust_type, ", ") && r->used > before)
		r->used = before; /* lifetimes alone */
	else
		say(r, ">");
}

/* The location of an impl is of no interest beside its type. */
static void skip_impl(struct rust_name *r)
{
	bool was_silent = r->is_silent;

	r->is_silent = true;
	marked_number(r, 's');
	rust_path(r);
	r->is_silent = was_silent;
}

static void as_trait(struct rust_name *r)
{
	say(r, "<");
	rust_type(r);
	say(r, " as ");
	rust_path(r);
	say(r, ">");
}

/* The method of a type that is not a path, as in <[u8]>::len. */
static void inherent(struct rust_name *r)
{
	bool is_path = strchr("CMXYNIB", r->text[r->at]) != NULL;

	say(r, is_path ? "" : "<");
	rust_type(r);
	say(r, is_path ? "" : ">");
}

static void rust_path(struct rust_name *r)
{
	struct rust_word w;

	if (++r->depth > RUST_DEPTH_MAX)
		r->is_wrong = true;
	switch (next(r)) {
	case 'C':
		w = rust_word(r);
		print(r, w.text ? w.text : "", w.length);
		break;
	case 'M':
		skip_impl(r);
		inherent(r);
		break;
	case 'X':
		skip_impl(r);
		as_trait(r);
		break;
	case 'Y':
		as_trait(r);
		break;
	case 'N':
		nested(r);
		break;
	case 'I':
		instance(r);
		break;
	case 'B':
		again(r, rust_path);
		break;
	default:
		r->is_wrong = true;
	}
	r->depth--;
}

static void signature(struct rust_name *r)
{
	marked_number(r, 'G');
	say(r, eat(r, 'U') ? "unsafe " : "");
	if (eat(r, 'K')) {
		bool is_c = eat(r, 'C');
		struct rust_word abi = is_c ? (struct rust_word){ "C", 1, 0 } : rust_word(r);
		say(r, "extern \"");
		print(r, abi.text ? abi.text : "", abi.length);
		say(r, "\" ");
	}
	say(r, "fn(");
	list(r, rust_type, ", ");
	say(r, ")");
	if (eat(r, 'u'))
		return;
	say(r, " -> ");
	rust_type(r);
}

static void one_trait(struct rust_name *r)
{
	rust_path(r);
	while (eat(r, 'p')) {
		struct rust_word w = rust_word(r);
		say(r, "<");
		print(r, w.text ? w.text : "", w.length);
		say(r, " = ");
		rust_type(r);
		say(r, ">");
	}
}

static const char *basic_type(char c)
{
	static const char *const names[26] = {
		['a' - 'a'] = "i8",   ['b' - 'a'] = "bool",  ['c' - 'a'] = "char",
		['d' - 'a'] = "f64",  ['e' - 'a'] = "str",   ['f' - 'a'] = "f32",
		['h' - 'a'] = "u8",   ['i' - 'a'] = "isize", ['j' - 'a'] = "usize",
		['l' - 'a'] = "i32",  ['m' - 'a'] = "u32",   ['n' - 'a'] = "i128",
		['o' - 'a'] = "u128", ['s' - 'a'] = "i16",   ['t' - 'a'] = "u16",
		['u' - 'a'] = "()",   ['v' - 'a'] = "...",   ['x' - 'a'] = "i64",
		['y' - 'a'] = "u64",  ['z' - 'a'] = "!",     ['p' - 'a'] = "_",
	};

	return islower((unsigned char)c) ? names[c - 'a'] : NULL;
}

static void pointer(struct rust_name *r, const char *text)
{
	say(r, text);
	if (eat(r, 'L'))
		base_62(r);
	rust_type(r);
}

static void composed_type(struct rust_name *r, char c)
{
	switch (c) {
	case 'R':
	case 'Q':
		pointer(r, c == 'R' ? "&" : "&mut ");
		break;
	case 'P':
	case 'O':
		pointer(r, c == 'P' ? "*const " : "*mut ");
		break;
	case 'A':
	case 'S':
		pointer(r, "[");
		say(r, c == 'A' ? "; " : "");
		if (c == 'A')
			constant(r);
		say(r, "]");
		break;
	case 'T':
		say(r, "(");
		say(r, list(r, rust_type, ", ") == 1 ? ",)" : ")");
		break;
	case 'F':
		signature(r);
		break;
	case 'D':
		marked_number(r, 'G');
		say(r, "dyn ");
		list(r, one_trait, " + ");
		r->is_wrong = r->is_wrong || !eat(r, 'L');
		base_62(r);
		break;
	default:
		r->at--;
		rust_path(r);
	}
}

static void rust_type(struct rust_name *r)
{
	char c = next(r);
	const char *basic = basic_type(c);

	if (++r->depth > RUST_DEPTH_MAX)
		r->is_wrong = true;
	if (r->is_wrong)
		return;
	if (basic)
		say(r, basic);
	else if (c == 'B')
		again(r, rust_type);
	else
		composed_type(r, c);
	r->depth--;
}

char *demangle_rust(const char *name)
{
	struct rust_name r = { .text = name + 2 };

	if (strncmp(name, "_R", 2) != 0 || !isupper((unsigned char)name[2]))
		return NULL;
	rust_path(&r);
	return r.is_wrong || !r.used ? NULL : strndup(r.out, r.used);
}

/*
 * `_$LT$r..Sq$u20$as$u20$r..Shape$GT$::area` is <r::Sq as r::Shape>::area. In place: it gets
 * shorter.
 */
void demangle_rust_escapes(char *name)
{
	static const struct {
		const char *code;
		char sign;
	} escapes[] = { { "$SP$", '@' }, { "$BP$", '*' }, { "$RF$", '&' }, { "$LT$", '<' },
			{ "$GT$", '>' }, { "$LP$", '(' }, { "$RP$", ')' }, { "$C$", ',' } };
	char *out = name;

	for (const char *p = name; *p;) {
		size_t i = 0;
		char *end;

		while (i < 8 && strncmp(p, escapes[i].code, strlen(escapes[i].code)) != 0)
			i++;
		if (i < 8) {
			*out++ = escapes[i].sign;
			p += strlen(escapes[i].code);
		} else if (!strncmp(p, "$u", 2)) {
			unsigned long sign = strtoul(p + 2, &end, 16);
			bool fits = *end == '$' && end <= p + 4 && isprint((int)sign);
			*out++ = fits ? (char)sign : *p;
			p = fits ? end + 1 : p + 1;
		} else if (!strncmp(p, "..", 2)) {
			*out++ = ':';
			*out++ = ':';
			p += 2;
		} else if (*p == '_' && p[1] == '$' && (p == name || p[-1] == ':')) {
			p++; /* put before a $, which begins no identifier */
		} else {
			*out++ = *p++;
		}
	}
	*out = 0;
}
