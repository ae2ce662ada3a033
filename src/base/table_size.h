/* SPDX-License-Identifier: MIT */
/*
 * table_size.h - how many rows a table of fixed size has.
 *
 * A table that is full costs coverage and nothing else: what has no room is left out and counted
 * under a name that the user sees. The tests build all of this a second time with tiny tables,
 * where each of them is full at once (tests/tools/test_race_tables.sh).
 */
#ifndef BASE_TABLE_SIZE_H
#define BASE_TABLE_SIZE_H

#ifdef TRAPLINE_TINY_TABLES
#define TABLE_SIZE(usual, tiny) (tiny)
#else
#define TABLE_SIZE(usual, tiny) (usual)
#endif

#endif
