# SPDX-License-Identifier: MIT
"""functions.py - programs of very many functions, as assembler: a compiler would need minutes."""


def write_functions(f, count, entry="push %rbp; mov %rsp, %rbp"):
    """f_0 to f_N, each with its own number in it. entry: the first instructions, which push %rbp."""
    f.write("\t.text\n")
    for i in range(count):
        f.write(f"\t.globl f_{i}\n\t.type f_{i}, @function\nf_{i}:\n\t{entry}\n"
                f"\tlea {i}(%rdi), %eax; pop %rbp; ret\n\t.size f_{i}, . - f_{i}\n")
    f.write('\t.section .note.GNU-stack,"",@progbits\n')
