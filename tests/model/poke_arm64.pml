/* SPDX-License-Identifier: MIT */
/*
 * poke_arm64.pml - the protocol of src/code/poke/poke.h by the rules of arm64 for instructions that change
 * while other processors run them. One thread changes a batch of SITES words FLIPS times while CORES run
 * them.
 *
 * The rules as the architecture states them:
 *	- a core may run what it fetched before until its context is synchronised: isb, an exception, a
 *	  return from one, membarrier SYNC_CORE;
 *	- then it fetches what maintenance (dc cvau, ic ivau) has made visible. It may see a store
 *	  earlier, at any moment;
 *	- a word that changed since its last synchronisation is old or new if both are of the eight that
 *	  may change under a core that runs them (B, BL, BRK, HVC, ISB, NOP, SMC, SVC). Else it may be
 *	  anything.
 * And one assumption that the manual does not state: a word that becomes BRK, or was BRK, is old or
 * new also where the other one is not of the eight.
 *
 * Words: 0 is a NOP, 2 a B; 1 is a move, which is not of the eight and cannot be emulated. What must
 * hold:
 *	- no core runs a word that may be anything;
 *	- a core that meets BRK gets past the instruction of its own site: the move by a copy;
 *	- a BRK of the batch is never taken for another's;
 *	- while no poke runs, a core runs what was written last, or meets BRK and begins again;
 *	- with LOGGED, the stage in the log states what a core can have run: old or BRK, BRK, BRK or
 *	  new. And a core is never in a copy that the log does not have.
 * FLIP stores new words at once where both are of the eight.
 *
 * Each of these takes one piece away, and must fail: NO_MAINTENANCE, NO_SYNC, NO_LAST_SYNC (of a
 * log), DIRECT (any word in one store), NO_WHOLE_WORDS (without the assumption), NO_ORPHAN_RULE,
 * NO_GENERATION, GENERATION_FIRST, NO_REFCOUNT. The three problems of the mail that this came from
 * fail too: EMULATE_ALL (nothing states which word to emulate and which to step), ONE_ADDRESS (one
 * global address while many sites change in one loop), HIDDEN_SLOT (a copy that a decoder cannot
 * see). And FLIP_LOGGED: a flip at once while a log is on.
 */
#define CORES 2
#define SITES 2
#define RUNS 1 /* a core may have fetched before it begins */
#define FLIPS 2
#define BRK 9
#define MOVE 1
/* Both sites are moves, or NOP and B. */
#define WORD(version, site) ((version) + 2 * (site) - 2 * (site) * (version))

#if defined(NO_LAST_SYNC) || defined(HIDDEN_SLOT) || defined(FLIP_LOGGED)
#define LOGGED
#endif
#if defined(FLIP) || defined(FLIP_LOGGED)
#define MAY_FLIP
#endif

#ifdef NO_WHOLE_WORDS
#define MAY_CHANGE(a, b) ((a) != MOVE && (b) != MOVE)
#else
#define MAY_CHANGE(a, b) (((a) != MOVE && (b) != MOVE) || (a) == BRK || (b) == BRK)
#endif

byte memory[SITES];
byte visible[SITES]; /* by maintenance */
byte seen[4];	     /* core * SITES + site: fetched, or to be found by a fetch at the latest */

#ifdef ONE_ADDRESS
#define IS_KNOWN && address == site
#else
#define IS_KNOWN
#endif

bool published;
bool committed;
bool batch_is_valid;
byte batch_before;
byte batch_after;
byte address; /* the site that changes, where there is one address for all */
byte generation;
byte inside;

byte current; /* what the last poke that returned has written */
mtype = { STABLE, BEGUN, TRAPPED, OPENED };
mtype stage = STABLE;
bool slot_is_logged;

inline synchronise(who)
{
	seen[(who) * SITES] = visible[0];
	seen[(who) * SITES + 1] = visible[1];
}

inline sync()
{
	d_step {
		synchronise(0);
		synchronise(1);
	}
}

inline store(site, word)
{
	d_step {
		address = site;
		memory[site] = word;
	}
#ifndef NO_MAINTENANCE
	visible[site] = word;
#endif
}

inline change_at_once(version)
{
	store(0, WORD(version, 0));
	store(1, WORD(version, 1));
	sync();
}

inline change_by_brk(version)
{
#ifdef GENERATION_FIRST
	generation++;
	published = true;
#else
	published = true;
	generation++;
#endif
	store(0, BRK);
	store(1, BRK);
#ifndef NO_SYNC
	sync();
#endif
	d_step {
		committed = true;
		stage = TRAPPED;
	}
	stage = OPENED;
	store(0, WORD(version, 0));
	store(1, WORD(version, 1));
#if defined(LOGGED) && !defined(NO_LAST_SYNC)
	sync();
#endif
	published = false;
#ifndef NO_REFCOUNT
	inside == 0;
#endif
}

active proctype poker()
{
	byte flips = 0;
	byte next;

	d_step {
		memory[1] = WORD(0, 1);
		visible[1] = WORD(0, 1);
		seen[1] = WORD(0, 1);
		seen[3] = WORD(0, 1);
	}
	run core(0);
	run core(1);
	do
	:: flips == FLIPS -> break
	:: else ->
		if
		:: next = (current + 1) % 3
		:: next = (current + 2) % 3
		fi;
#ifndef HIDDEN_SLOT
		slot_is_logged = true; /* before a core can be in it */
#endif
		d_step {
			stage = BEGUN;
			batch_before = current;
			batch_after = next;
			batch_is_valid = true;
			committed = false;
		}
#ifdef DIRECT
		change_at_once(next);
#else
#ifdef MAY_FLIP
		if
		:: current != MOVE && next != MOVE -> change_at_once(next)
		:: else -> change_by_brk(next)
		fi;
#else
		change_by_brk(next);
#endif
#endif
		d_step {
			batch_is_valid = false;
			current = next;
			stage = STABLE;
			flips++;
		}
	od
}

/* BRK at site: an exception, which synchronises; the signal may be delivered much later. */
inline handle()
{
	synchronise(me);
	entered = generation;
	inside++;
	if
	:: published IS_KNOWN ->
		if
		:: committed -> taken = WORD(batch_after, site)
		:: else -> taken = WORD(batch_before, site)
		fi;
		assert(batch_is_valid);
		inside--;
		/* A copy does what the move does; to set the pc does not. */
#ifdef EMULATE_ALL
		assert(taken != MOVE);
#endif
#ifdef LOGGED
		assert(taken != MOVE || slot_is_logged);
#endif
		runs++;
	:: else ->
		inside--;
#ifdef NO_ORPHAN_RULE
		assert(false);
#else
#ifdef NO_GENERATION
		assert(memory[site] != BRK);
#else
		assert(memory[site] != BRK || generation != entered);
#endif
#endif
	fi;
	synchronise(me)
}

proctype core(byte me)
{
	byte runs = 0;
	byte site;
	byte word;
	byte taken;
	byte entered;

	do
	:: runs == RUNS -> break
	:: else ->
		if
		:: site = 0
		:: site = 1
		fi;
		atomic {
			/* Old or new, or anything at all. */
			assert(seen[me * SITES + site] == memory[site] ||
			       MAY_CHANGE(seen[me * SITES + site], memory[site]));
			if
			:: seen[me * SITES + site] = memory[site]
			:: skip
			fi;
			word = seen[me * SITES + site];
			assert(stage != STABLE || word == BRK || word == WORD(current, site));
#ifdef LOGGED
			assert(word != BRK || stage != STABLE);
			assert(word == BRK || stage != BEGUN || word == WORD(batch_before, site));
			assert(word == BRK || stage != TRAPPED);
			assert(word == BRK || stage != OPENED || word == WORD(batch_after, site));
#endif
		}
		if
		:: word == BRK -> handle()
		:: else -> runs++
		fi
	od
}
