/* SPDX-License-Identifier: MIT */
/* print.c - see print.h. The notation of programs is that of the kernel's verifier. */
#include "cond/print.h"

static const char *const op_names[COND_OP_COUNT] = {
	[COND_PUSH] = "push",
	[COND_TERM] = "term",
	[COND_REG] = "register",
	[COND_COUNT] = "count of event",
	[COND_LOAD] = "load",
	[COND_CAST] = "cast",
	[COND_ORDER] = "order of",
	[COND_WIDEN] = "f64 of f32",
	[COND_ROUND] = "f32 of f64",
	[COND_TO_FLOAT] = "float of",
	[COND_TO_WHOLE] = "whole number of f64",
	[COND_NEG] = "-",
	[COND_INV] = "~",
	[COND_NOT] = "!",
	[COND_BOOL] = "!= 0",
	[COND_FADD] = "f64 +",
	[COND_FSUB] = "f64 -",
	[COND_FMUL] = "f64 *",
	[COND_FDIV] = "f64 /",
	[COND_ADD] = "+",
	[COND_SUB] = "-",
	[COND_MUL] = "*",
	[COND_DIV] = "/",
	[COND_MOD] = "%",
	[COND_AND] = "&",
	[COND_OR] = "|",
	[COND_XOR] = "^",
	[COND_SHL] = "<<",
	[COND_SHR] = ">>",
	[COND_EQ] = "==",
	[COND_NE] = "!=",
	[COND_LT] = "<",
	[COND_LE] = "<=",
	[COND_GT] = ">",
	[COND_GE] = ">=",
	[COND_IN] = "in",
	[COND_STRING] = "string begins",
	[COND_THREAD] = "thread is",
	[COND_JUMP_IF_0] = "jump if 0, drop",
	[COND_JUMP_IF_0_KEEP] = "jump if 0",
	[COND_JUMP_IF_1_KEEP] = "jump if not 0",
	[COND_JUMP] = "jump",
	[COND_POP] = "drop",
};

static const char *const term_names[COND_TERM_COUNT] = {
	[COND_NEW] = "new",	    [COND_OLD] = "old",
	[COND_CHANGED] = "changed", [COND_ADDR] = "addr",
	[COND_IP] = "ip",	    [COND_TID] = "tid",
	[COND_PID] = "pid",	    [COND_CPU] = "cpu",
	[COND_HITS] = "hits",	    [COND_HITS_IN_THREAD] = "hits_in_thread",
	[COND_CALLER] = "caller",
};

static void print_operand(FILE *out, const struct condition *c, const struct cond_step *s)
{
	switch (s->op) {
	case COND_PUSH:
		fprintf(out, " %#llx", (unsigned long long)s->imm);
		break;
	case COND_TERM:
		fprintf(out, " %s", term_names[s->arg]);
		break;
	case COND_REG:
	case COND_COUNT:
		fprintf(out, " %u", s->arg);
		break;
	case COND_LOAD:
	case COND_CAST:
		fprintf(out, " %c%u", s->is_signed ? 's' : 'u', 8 * s->size);
		break;
	case COND_ORDER:
		fprintf(out, " f%u, NaN %s%s", 8 * s->size, s->imm ? "last" : "first",
			s->arg ? ", left" : "");
		break;
	case COND_WIDEN:
	case COND_ROUND:
		fprintf(out, s->arg ? ", left" : "");
		break;
	case COND_TO_FLOAT:
		fprintf(out, " %c64 as f%u%s", s->is_signed ? 's' : 'u', 8 * s->size,
			s->arg ? ", left" : "");
		break;
	case COND_TO_WHOLE:
		fprintf(out, " as %c64", s->is_signed ? 's' : 'u');
		break;
	case COND_IN:
		fprintf(out, " [%#llx, %#llx)", (unsigned long long)s->imm,
			(unsigned long long)s->imm2);
		break;
	case COND_STRING:
		fprintf(out, " with %u bytes of constant %u", s->size, s->arg);
		break;
	case COND_THREAD:
		fprintf(out, " \"%.*s\"", COND_THREAD_NAME, c->strings + s->arg);
		break;
	case COND_JUMP_IF_0:
	case COND_JUMP_IF_0_KEEP:
	case COND_JUMP_IF_1_KEEP:
	case COND_JUMP:
		fprintf(out, " to %u", s->target);
		break;
	default:
		if (s->op >= COND_DIV && s->op <= COND_GE)
			fprintf(out, s->is_signed ? " signed" : " unsigned");
	}
}

void cond_print(FILE *out, const struct condition *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		fprintf(out, "%4u: %s", i, op_names[c->steps[i].op]);
		print_operand(out, c, &c->steps[i]);
		fputc('\n', out);
	}
}

static const char *const alu_signs[16] = {
	[BPF_ADD >> 4] = "+=",	  [BPF_SUB >> 4] = "-=",  [BPF_MUL >> 4] = "*=",
	[BPF_DIV >> 4] = "/=",	  [BPF_OR >> 4] = "|=",	  [BPF_AND >> 4] = "&=",
	[BPF_LSH >> 4] = "<<=",	  [BPF_RSH >> 4] = ">>=", [BPF_NEG >> 4] = "= -",
	[BPF_MOD >> 4] = "%=",	  [BPF_XOR >> 4] = "^=",  [BPF_MOV >> 4] = "=",
	[BPF_ARSH >> 4] = "s>>=",
};

static const char *const jump_signs[16] = {
	[BPF_JEQ >> 4] = "==",	 [BPF_JGT >> 4] = ">",	  [BPF_JGE >> 4] = ">=",
	[BPF_JNE >> 4] = "!=",	 [BPF_JLT >> 4] = "<",	  [BPF_JLE >> 4] = "<=",
	[BPF_JSGT >> 4] = "s>",	 [BPF_JSGE >> 4] = "s>=", [BPF_JSLT >> 4] = "s<",
	[BPF_JSLE >> 4] = "s<=", [BPF_JSET >> 4] = "&",
};

static const char *size_name(uint8_t code)
{
	switch (BPF_SIZE(code)) {
	case BPF_B:
		return "u8";
	case BPF_H:
		return "u16";
	case BPF_W:
		return "u32";
	default:
		return "u64";
	}
}

static void print_source(FILE *out, const struct bpf_insn *in)
{
	if (BPF_SRC(in->code) == BPF_X)
		fprintf(out, " r%u", in->src_reg);
	else
		fprintf(out, " %d", in->imm);
}

static void print_alu(FILE *out, const struct bpf_insn *in)
{
	fprintf(out, "r%u %s", in->dst_reg, alu_signs[BPF_OP(in->code) >> 4]);
	if (BPF_OP(in->code) == BPF_NEG)
		fprintf(out, "r%u", in->dst_reg);
	else
		print_source(out, in);
}

static void print_jump(FILE *out, const struct bpf_insn *in)
{
	if (BPF_OP(in->code) == BPF_CALL && in->src_reg == BPF_PSEUDO_CALL) {
		fprintf(out, "call %+d", in->imm);
	} else if (BPF_OP(in->code) == BPF_CALL) {
		fprintf(out, "call #%d", in->imm);
	} else if (BPF_OP(in->code) == BPF_EXIT) {
		fprintf(out, "exit");
	} else if (BPF_OP(in->code) == BPF_JA) {
		fprintf(out, "goto %+d", in->off);
	} else {
		fprintf(out, "if r%u %s", in->dst_reg, jump_signs[BPF_OP(in->code) >> 4]);
		print_source(out, in);
		fprintf(out, " goto %+d", in->off);
	}
}

static void print_insn(FILE *out, const struct bpf_insn *in)
{
	switch (BPF_CLASS(in->code)) {
	case BPF_ALU64:
		print_alu(out, in);
		break;
	case BPF_JMP:
		print_jump(out, in);
		break;
	case BPF_LDX:
		fprintf(out, "r%u = *(%s *)(r%u %+d)", in->dst_reg, size_name(in->code),
			in->src_reg, in->off);
		break;
	case BPF_ST:
		fprintf(out, "*(%s *)(r%u %+d) = %d", size_name(in->code), in->dst_reg, in->off,
			in->imm);
		break;
	default:
		fprintf(out, "%s *(%s *)(r%u %+d) r%u",
			BPF_MODE(in->code) == BPF_ATOMIC ? "atomic" : "store", size_name(in->code),
			in->dst_reg, in->off, in->src_reg);
	}
}

void ebpf_print(FILE *out, const struct ebpf *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		const struct bpf_insn *in = &p->insns[i];

		fprintf(out, "%4u: ", i);
		if (in->code == (BPF_LD | BPF_IMM | BPF_DW) && i + 1 < p->count) {
			uint64_t high = (uint32_t)p->insns[++i].imm;

			if (in->src_reg)
				fprintf(out, "r%u = map, offset %u", in->dst_reg, (uint32_t)high);
			else
				fprintf(out, "r%u = %#llx", in->dst_reg,
					(unsigned long long)(high << 32 | (uint32_t)in->imm));
		} else {
			print_insn(out, in);
		}
		fputc('\n', out);
	}
}
