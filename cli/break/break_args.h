/* SPDX-License-Identifier: MIT */
/* break_args.h - arguments and results as text and JSON. */
#ifndef CLI_BREAK_BREAK_ARGS_H
#define CLI_BREAK_BREAK_ARGS_H

#include "cli/opts.h"
#include "report/lang/signature.h"

#include <jansson.h>
#include <trapline/trapline.h>

/* What a value of a hit is read from. */
struct break_values {
	struct symbols *s;
	const struct trapline_hit *hit;
	bool later;	 /* becomes true when memory of the target is read after the hit */
	uint64_t hidden; /* of a result in memory: its address, by the call; 0: not known */
	bool is_whole;	 /* of the signature, which break_args.c sets */
	const struct opt_list *redact; /* names that are not printed; NULL: all are */
};
/* `a=1, s=0x5581c0 "text"`; what does not fit in buf is cut. */
void break_args_text(struct break_values *v, const struct signature *signature, char *buf,
		     size_t n);
json_t *break_args_json(struct break_values *v, const struct signature *signature);
/* The result is empty or null for a function that returns nothing; signature NULL: not known. */
void break_result_text(struct break_values *v, const struct signature *signature, char *buf,
		       size_t n);
json_t *break_result_json(struct break_values *v, const struct signature *signature);
/* One parameter of the signature. */
void break_value_text(struct break_values *v, const struct signature *signature,
		      const struct signature_value *value, char *buf, size_t n);
/* The registers that point to text, one bit for each. */
uint32_t break_value_texts(const struct signature_value *value);
uint32_t break_texts(const struct signature *signature, bool of_result);
/* So many vector registers have arguments, from the first one on. */
uint32_t break_vectors(const struct signature *signature);

#endif
