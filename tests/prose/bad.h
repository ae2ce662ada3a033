/* Nobody is stalled. <!-- {subject} --> */
#define TEXT "held in a literal of a public header" /* only its comments are checked */
/*
 * The thread stands there. <!-- {verb} -->
 *
 *	held in an example
 */
