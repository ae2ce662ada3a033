/* SPDX-License-Identifier: MIT */
/* outside_right.c SECONDS - outside_racy.c with a lock, for any C library. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define LOCK() pthread_mutex_lock(&mutex)
#define UNLOCK() pthread_mutex_unlock(&mutex)
#include "outside_racy.c"
