/* SPDX-License-Identifier: MIT */
/*
 * poke.pml - the protocol of src/code/poke/poke.h: one site of two bytes, changed FLIPS times by one
 * thread while CORES run it.
 *
 * A core sees each byte as it is or as it was at any moment since its last sync. It fetches the
 * two bytes one after the other; a sync in between makes it fetch again. What must hold:
 *	- no instruction is put together from two versions;
 *	- an int3 is never taken for somebody else's;
 *	- the handler never reads a batch that is being reused;
 *	- a core that begins never runs bytes older than those of the last poke that returned. It may
 *	  still run into the int3, and the orphan rule makes it begin again;
 *	- with LOGGED, which adds a sync after the last byte, it does not even run into the int3. A
 *	  reader of the code log relies on that.
 *
 * Each of these takes one piece away, and must fail: NO_SYNC_1, NO_SYNC_2, NO_REFCOUNT,
 * NO_ORPHAN_RULE, NO_GENERATION, GENERATION_FIRST, and LOGGED_WITHOUT_SYNC.
 */
#define CORES 2
#define RUNS 2
#define FLIPS 2
#define INT3 9

byte text_0 = 0;
byte text_1 = 0;
byte seen_0[CORES];
byte seen_1[CORES];
bool synced[CORES]; /* since the first byte was fetched */

bool published;
bool committed;
bool batch_is_valid;
byte batch_before;
byte batch_after;
byte generation;
byte inside; /* handlers that may look at the batch */

bool is_stable = true; /* no poke is running */
byte current;	       /* what the last poke that returned has written */

inline sync()
{
	d_step {
		seen_0[0] = text_0;
		seen_1[0] = text_1;
		synced[0] = true;
		seen_0[1] = text_0;
		seen_1[1] = text_1;
		synced[1] = true;
	}
}

active proctype poker()
{
	byte next = 1;

	do
	:: next > FLIPS -> break
	:: else ->
		d_step {
			is_stable = false;
			batch_before = current;
			batch_after = next;
			batch_is_valid = true;
			committed = false;
		}
#ifdef GENERATION_FIRST
		generation++;
		published = true;
#else
		published = true;
		generation++;
#endif
		text_0 = INT3;
#ifndef NO_SYNC_1
		sync();
#endif
		committed = true;
		text_1 = next;
#ifndef NO_SYNC_2
		sync();
#endif
		text_0 = next;
#ifdef LOGGED
		sync();
#endif
		published = false;
#ifndef NO_REFCOUNT
		inside == 0;
#endif
		batch_is_valid = false;
		d_step {
			current = next;
			is_stable = true;
			next++;
		}
	od
}

proctype core(byte me)
{
	byte runs = 0;
	byte byte_0;
	byte byte_1;
	byte taken;
	byte entered;
	byte at_start;
	bool was_stable;

again:
	do
	:: runs == RUNS -> break
	:: else ->
		atomic {
			was_stable = is_stable;
			at_start = current;
			synced[me] = false;
			if
			:: seen_0[me] = text_0
			:: skip
			fi;
			byte_0 = seen_0[me];
		}
		atomic {
			if
			:: seen_1[me] = text_1
			:: skip
			fi;
			byte_1 = seen_1[me];
			if
			:: synced[me] -> goto again
			:: else
			fi;
		}
		if
		:: byte_0 == INT3 ->
#if defined(LOGGED) || defined(LOGGED_WITHOUT_SYNC)
			assert(!was_stable);
#endif
			/* The signal may be delivered much later. */
			entered = generation;
			inside++;
			if
			:: published ->
				if
				:: committed -> taken = batch_after
				:: else -> taken = batch_before
				fi;
				assert(batch_is_valid);
				assert(taken >= at_start);
				inside--;
				runs++;
			:: else ->
				inside--;
#ifdef NO_ORPHAN_RULE
				assert(false);
#else
#ifdef NO_GENERATION
				assert(text_0 != INT3);
#else
				assert(text_0 != INT3 || generation != entered);
#endif
#endif
			fi;
			/* The return from a signal is serializing. */
			d_step {
				seen_0[me] = text_0;
				seen_1[me] = text_1;
			}
		:: else ->
			assert(byte_0 == byte_1);
			assert(byte_0 >= at_start);
			/* Begun while nothing was changed: what was written last. */
			assert(!was_stable || byte_0 == at_start);
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
