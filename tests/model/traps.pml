/* SPDX-License-Identifier: MIT */
/*
 * traps.pml - an int3 that stays (src/code/poke/traps.c): set and removed ROUNDS times while CORES run
 * the instruction. What must hold:
 *	- while the trap is there nobody gets past it uncounted, once it is removed nobody runs into it;
 *	- an int3 is never taken for somebody else's;
 *	- neither row nor argument of a callback is freed while a thread uses it.
 *
 * Each of these takes one piece away, and must fail: NO_SYNC_SET, NO_SYNC_REMOVE, EARLY_WITHDRAWAL,
 * LATE_PUBLICATION, NO_REFCOUNT, NO_RUNNING, NO_GENERATION.
 */
#define CORES 2
#define RUNS 2
#define ROUNDS 2
#define INT3 9

byte text = 0;
byte seen[CORES];

bool published;
bool row_is_valid;
bool callback_is_valid;
byte generation;
byte inside;
byte running;

bool is_placed;	       /* set has returned, remove not yet begun */
bool is_gone = true;   /* remove has returned, or nothing was set yet */

inline sync()
{
	d_step {
		seen[0] = text;
		seen[1] = text;
	}
}

active proctype owner()
{
	byte round = 0;

	do
	:: round == ROUNDS -> break
	:: else ->
		is_gone = false;
		row_is_valid = true;
		callback_is_valid = true;
#ifdef LATE_PUBLICATION
		text = INT3;
		sync();
#endif
		published = true;
		generation++;
		text = INT3;
#ifndef NO_SYNC_SET
		sync();
#endif
		is_placed = true;
		is_placed = false;
#ifdef EARLY_WITHDRAWAL
		published = false;
		generation++;
#endif
		text = 0;
#ifndef NO_SYNC_REMOVE
		sync();
#endif
		published = false;
		generation++;
#ifndef NO_REFCOUNT
		inside == 0;
#endif
		row_is_valid = false;
#ifndef NO_RUNNING
		running == 0;
#endif
		callback_is_valid = false;
		is_gone = true;
		round++;
	od
}

proctype core(byte me)
{
	byte runs = 0;
	byte fetched;
	byte entered;
	bool was_placed;
	bool was_gone;

	do
	:: runs == RUNS -> break
	:: else ->
		atomic {
			was_placed = is_placed;
			was_gone = is_gone;
			if
			:: seen[me] = text
			:: skip
			fi;
			fetched = seen[me];
		}
		if
		:: fetched == INT3 ->
			assert(!was_gone);
			entered = generation;
			inside++;
			if
			:: published ->
				assert(row_is_valid);
				running++;
				assert(row_is_valid);
				inside--;
				assert(callback_is_valid);
				running--;
				runs++;
			:: else ->
				inside--;
#ifdef NO_GENERATION
				assert(text != INT3);
#else
				assert(text != INT3 || generation != entered);
#endif
			fi;
			seen[me] = text;
		:: else ->
			assert(!was_placed);
			runs++;
		fi
	od
}

init
{
	atomic {
		run core(0);
		run core(1);
	}
}
