/* SPDX-License-Identifier: MIT */
/*
 * probe_frame_arm64.h - what the stub of a probe and the entry agree on.
 *
 * The stub makes the frame, saves x16 and x17 in it, and leads to the entry with the number of the
 * probe in x16. Right before the copy of the instruction it loads both and frees the frame.
 */
#ifndef CODE_PROBE_PROBE_FRAME_ARM64_H
#define CODE_PROBE_PROBE_FRAME_ARM64_H

#define PROBE_FRAME_BYTES 1136
#define PROBE_FRAME_X16 440
#define PROBE_BACK_BYTES 8

#endif
