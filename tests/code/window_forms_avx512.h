/* SPDX-License-Identifier: MIT */
/*
 * window_forms_avx512.h - forms of test_window_forms.c that need AVX-512, and random states of all its
 * registers.
 *
 * A name that begins with "avx512" needs F, BW, VL and DQ; one with "avx512+" also the later parts. Masks
 * k1 to k7 and all of zmm0 to zmm31 are random at the begin, and compared at the end.
 */
#ifndef TESTS_WINDOW_FORMS_AVX512_H
#define TESTS_WINDOW_FORMS_AVX512_H

#define AVX512 "avx512 "
#define AVX512_MORE "avx512+ "

/* Registers. */
FORM(AVX512 "add", "vpaddd %zmm31, %zmm16, %zmm0")
FORM(AVX512 "add mask", "vpaddq %zmm3, %zmm20, %zmm9{%k3}")
FORM(AVX512 "add zero", "vpaddw %zmm3, %zmm20, %zmm29{%k5}{z}")
FORM(AVX512 "add ymm", "vpaddb %ymm18, %ymm17, %ymm30{%k1}")
FORM(AVX512 "add xmm", "vpaddb %xmm18, %xmm17, %xmm30{%k7}{z}")
FORM(AVX512 "rounding", "vcvtdq2ps {rz-sae}, %zmm4, %zmm5{%k2}")
FORM(AVX512 "ternary", "vpternlogd $0x96, %zmm8, %zmm23, %zmm1{%k4}")
FORM(AVX512 "permute", "vpermt2d %zmm6, %zmm7, %zmm28{%k6}")
FORM(AVX512 "extract", "vextracti64x4 $1, %zmm21, %ymm2{%k2}")
FORM(AVX512 "insert", "vinserti32x4 $2, %xmm3, %zmm4, %zmm22")
FORM(AVX512 "from general", "vpbroadcastq %r13, %zmm25{%k1}")
FORM(AVX512 "to general", "vmovd %xmm19, %r9d\n\tvpextrq $1, %xmm28, %rsi")
FORM(AVX512 "compare", "vpcmpud $5, %zmm1, %zmm17, %k2{%k3}")
FORM(AVX512 "test", "vptestnmb %zmm30, %zmm2, %k5")
FORM(AVX512 "to mask", "vpmovb2m %zmm16, %k1\n\tvpmovm2w %k6, %zmm17")
FORM(AVX512 "masks", "kandq %k1, %k2, %k3\n\tkshiftlq $7, %k3, %k4\n\tkunpckdq %k5, %k6, %k7")
FORM(AVX512 "mask flags", "kortestq %k1, %k2\n\tsetc %al\n\tktestw %k3, %k4")
FORM(AVX512 "mask general",
     "kmovq %k7, %rax\n\tkmovd %esi, %k1\n\tkmovw %r9d, %k2\n\tkmovb %k3, %edx")
FORM(AVX512 "legacy zeroes", "vpaddd %xmm1, %xmm2, %xmm3\n\tpaddd %xmm4, %xmm5")
FORM(AVX512 "zeroupper", "vzeroupper")
FORM(AVX512 "conflict", "vpconflictd %zmm1, %zmm2\n\tvplzcntq %zmm3, %zmm4{%k1}")

/* Memory. */
FORM(AVX512 "load", "vmovdqu64 64(%rbx), %zmm24")
FORM(AVX512 "load mask", "vmovdqu8 64(%rbx), %zmm24{%k1}{z}")
FORM(AVX512 "store", "vmovdqu32 %zmm13, 128(%r12)")
FORM(AVX512 "store mask", "vmovdqu16 %zmm13, 128(%r12){%k2}")
FORM(AVX512 "broadcast", "vpaddd 4(%rbx){1to16}, %zmm20, %zmm21{%k3}")
FORM(AVX512 "broadcast 64", "vpmullq 16(%r8){1to8}, %zmm20, %zmm21{%k3}{z}")
FORM(AVX512 "indexed", "movl $3, %r14d\n\tvpaddd -64(%rbx, %r14, 8), %zmm1, %zmm18")
FORM(AVX512 "compress", "vpcompressd %zmm7, 64(%rbp){%k4}")
FORM(AVX512 "expand", "vpexpandq 64(%rbp), %zmm27{%k4}{z}")
FORM(AVX512 "gather", "vpxord %zmm16, %zmm16, %zmm16\n\tkmovq %k2, %k1\n\t"
		      "vpgatherdd (%rbx, %zmm16, 4), %zmm17{%k1}")
FORM(AVX512 "gather more", "vpandd 64(%r8){1to16}, %zmm1, %zmm16\n\tvpsrld $26, %zmm16, %zmm16\n\t"
			   "vpgatherdd (%r12, %zmm16, 4), %zmm17{%k6}")
FORM(AVX512 "scatter", "vpsrlq $58, %zmm3, %zmm16\n\tvpscatterqq %zmm19, (%r12, %zmm16, 8){%k5}")
FORM(AVX512 "mask memory", "kmovq 8(%rbx), %k3\n\tkmovw %k4, 16(%rbx)\n\tkmovd 4(%r12), %k5")
FORM(AVX512 "narrow", "vpmovqb %zmm5, 3(%rbp){%k1}\n\tvpmovsdw %zmm6, 64(%rbp)")
FORM(AVX512 "widen", "vpmovzxbd 5(%rbx), %zmm26{%k7}{z}")
FORM(AVX512 "non-temporal", "leaq 63(%r12), %r14\n\tandq $-64, %r14\n\tvmovntdq %zmm20, (%r14)")

/* By distance from the pc. */
FORM(AVX512 "rip load", "vmovdqu64 forms_data+64(%rip), %zmm24")
FORM(AVX512 "rip load mask", "vmovdqu8 forms_data+64(%rip), %zmm8{%k1}{z}")
FORM(AVX512 "rip store", "vmovdqu32 %zmm13, forms_data+128(%rip)")
FORM(AVX512 "rip store mask", "vmovdqu16 %zmm29, forms_data+192(%rip){%k2}")
FORM(AVX512 "rip broadcast", "vpaddd forms_data+4(%rip){1to16}, %zmm20, %zmm21{%k3}")
FORM(AVX512 "rip immediate", "vpshufd $0x1b, forms_data+64(%rip), %zmm30{%k6}")
FORM(AVX512 "rip compare", "vpcmpb $6, forms_data(%rip), %zmm31, %k2{%k3}\n\tkmovq %k2, %rax")
FORM(AVX512 "rip compress", "vpcompressq %zmm7, forms_data+64(%rip){%k4}")
FORM(AVX512 "rip expand", "vpexpandd forms_data+64(%rip), %zmm27{%k4}")
FORM(AVX512 "rip ternary", "vpternlogq $0xe4, forms_data+8(%rip){1to8}, %zmm23, %zmm1")
FORM(AVX512 "rip narrow", "vpmovqb %zmm5, forms_data+3(%rip){%k1}")
FORM(AVX512 "rip extract", "vextracti32x4 $3, %zmm21, forms_data+32(%rip){%k2}")
FORM(AVX512 "rip xmm", "vpaddb forms_data+16(%rip), %xmm17, %xmm30{%k7}{z}")
FORM(AVX512 "rip scalar",
     "vmovsd forms_data(%rip), %xmm18{%k1}{z}\n\tvmovss %xmm19, forms_data+8(%rip)")
FORM(AVX512 "rip to mask", "kmovq forms_data(%rip), %k3\n\tkmovw %k4, forms_data+8(%rip)")

/* The later parts. */
FORM(AVX512_MORE "bytes", "vpermb %zmm1, %zmm2, %zmm19{%k1}\n\tvpmultishiftqb %zmm3, %zmm4, %zmm20")
FORM(AVX512_MORE "two tables", "vpermi2b forms_data(%rip), %zmm2, %zmm21{%k2}")
FORM(AVX512_MORE "compress bytes",
     "vpcompressb %zmm7, forms_data+64(%rip){%k4}\n\tvpexpandw 64(%rbp), %zmm9{%k3}")
FORM(AVX512_MORE "shift pairs", "vpshldvq forms_data(%rip), %zmm6, %zmm17{%k5}{z}")
FORM(AVX512_MORE "dot", "vpdpbusd forms_data+4(%rip){1to16}, %zmm18, %zmm19{%k6}")
FORM(AVX512_MORE "bits", "vpopcntb %zmm16, %zmm17{%k1}\n\tvpopcntq forms_data(%rip), %zmm18\n\t"
			 "vpshufbitqmb %zmm1, %zmm2, %k2")
FORM(AVX512_MORE "multiply", "vpmadd52luq forms_data(%rip), %zmm3, %zmm22{%k2}")
FORM(AVX512_MORE "galois", "vgf2p8affineqb $0x63, forms_data(%rip), %zmm18, %zmm23{%k3}")
FORM(AVX512_MORE "cipher", "vaesenc forms_data(%rip), %zmm18, %zmm24\n\t"
			   "vpclmulqdq $0x11, 64(%rbx), %zmm17, %zmm25")
FORM(AVX512_MORE "half", "vcvtneps2bf16 %zmm3, %ymm26{%k4}{z}")

/* ---- all registers ---- */

struct vector_state {
	uint8_t zmm[32][64];
	uint64_t k[8];
};

struct vector_state vector_state;
void vector_run_asm(void);

#define V_EACH(x)                                                                             \
	x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15) \
		x(16) x(17) x(18) x(19) x(20) x(21) x(22) x(23) x(24) x(25) x(26) x(27) x(28) \
			x(29) x(30) x(31)
#define V_LOAD(n) "vmovdqu64 vector_state+64*" #n "(%rip), %zmm" #n "\n\t"
#define V_STORE(n) "vmovdqu64 %zmm" #n ", vector_state+64*" #n "(%rip)\n\t"
#define K_EACH(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7)
#define K_LOAD(n) "kmovq vector_state+2048+8*" #n "(%rip), %k" #n "\n\t"
#define K_STORE(n) "kmovq %k" #n ", vector_state+2048+8*" #n "(%rip)\n\t"

__asm__(".text\n"
	".globl vector_run_asm\n"
	"vector_run_asm:\n\t" V_EACH(V_LOAD) K_EACH(K_LOAD) "subq $8, %rsp\n\t"
							    "call machine_run_asm\n\t"
							    "addq $8, %rsp\n\t" V_EACH(V_STORE)
								    K_EACH(K_STORE) "vzeroupper\n\t"
										    "ret\n");

static inline int has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static inline int has_avx512_more(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512vbmi") &&
	       __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vnni") &&
	       __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512ifma") &&
	       __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("gfni") &&
	       __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512bf16");
}

#endif
