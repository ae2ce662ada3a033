/* SPDX-License-Identifier: MIT */
/* veto.h - whether BPF may decide over signals here. */
#ifndef TRAP_VETO_H
#define TRAP_VETO_H

/*
 * 1: a BPF verdict of 0 suppresses SIGTRAP. 0: it does not, or BPF is not permitted, or SIGTRAP is
 * blocked in this thread so that it could not be tried. trap_install() comes first. AS-Unsafe.
 */
int trap_can_veto(void);

#endif
