/* SPDX-License-Identifier: MIT */
/*
 * heap_libc.c - functions of libc on blocks of exactly the size of their string.
 *
 *	right [NAME]	no error: each function with strings of 1 to 70 characters
 *	wrong NAME SIZE	one error: the string of SIZE characters has no end, or the destination no room
 *	list		the names of the wrong ones
 */
#define _GNU_SOURCE
#include <argz.h>
#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <iconv.h>
#include <inttypes.h>
#include <langinfo.h>
#include <libgen.h>
#include <locale.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>
#include <wordexp.h>

#define SET "bcdefghijklmnopqrstuvwxyz0123456789"
#define LONGEST 70
#define KEPT 16

static volatile size_t sink;
static void *kept[KEPT];
static unsigned int kept_count;

/* Freed when as many others have come. */
static void *keep(void *p)
{
	void **place = &kept[kept_count++ % KEPT];

	free(*place);
	*place = p;
	return p;
}

/* n characters and their end. */
static char *s(int n, int c)
{
	char *p = malloc(n + 1);

	memset(p, c, n);
	p[n] = 0;
	return keep(p);
}

/* n characters without an end. */
static char *bare(int n, int c)
{
	return keep(memset(malloc(n), c, n));
}

static wchar_t *w(int n, int c)
{
	wchar_t *p = malloc(sizeof(wchar_t) * (n + 1));

	wmemset(p, c, n);
	p[n] = 0;
	return keep(p);
}

static wchar_t *wide_bare(int n, int c)
{
	return keep(wmemset(malloc(sizeof(wchar_t) * n), c, n));
}

static int compare(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

static void read_stream(int n)
{
	FILE *f = fmemopen(s(n, 'a'), n, "r");
	char *line = s(n, 0);

	sink += fgets(line, n + 1, f) != NULL;
	fclose(f);
	f = fmemopen(s(n, '7'), n, "r");
	int number = 0;
	sink += fscanf(f, "%3d", &number);
	fclose(f);
}

static void convert(int n)
{
	iconv_t i = iconv_open("UTF-16", "UTF-8");
	char *from = s(n, 'a');
	char *to = s(4 * n + 8, 0);
	size_t left = n;
	size_t room = 4 * n + 8;

	sink += iconv(i, &from, &left, &to, &room);
	iconv_close(i);
}

static void match(int n)
{
	regex_t r;

	regcomp(&r, s(n, 'a'), REG_EXTENDED);
	sink += regexec(&r, s(n + 3, 'a'), 0, NULL, 0);
	regfree(&r);
}

static void split(int n)
{
	char *z;
	size_t length;

	argz_create_sep(s(n, 'a'), ':', &z, &length);
	sink += length;
	free(z);
}

#define RIGHT(F)                                                                                \
	F(strcspn, sink += strcspn(s(n, 'a'), SET))                                             \
	F(strspn, sink += strspn(s(n, 'b'), SET))                                               \
	F(strpbrk, sink += !!strpbrk(s(n, 'a'), SET))                                           \
	F(strspn_set, sink += strspn("aaaaaaaaaaaaaaaaaaaaaaaaaaa", s(n, 'a')))                 \
	F(strcspn_set, sink += strcspn("bbbbbbbbbbbbbbbbbbbbb", s(n, 'a')))                     \
	F(strcspn_short, sink += strcspn(s(n, 'a'), "xyz"))                                     \
	F(strtok, sink += !!strtok(s(n, 'a'), SET))                                             \
	F(strtok_r, char *at; sink += !!strtok_r(s(n, 'b'), SET, &at))                          \
	F(strsep, char *at = s(n, 'a'); sink += !!strsep(&at, SET))                             \
	F(strcasestr, sink += !!strcasestr(s(n, 'a'), s(5, 'B')))                               \
	F(strstr, sink += !!strstr(s(n, 'a'), s(n / 2 + 1, 'b')))                               \
	F(strstr_last, sink += !!strstr(s(n, 'a'), s(n / 2 + 1, 'a')))                          \
	F(strstr_short, sink += !!strstr(s(n, 'a'), "ab"))                                      \
	F(memmem, sink += !!memmem(bare(n, 'a'), n, "zz", 2))                                   \
	F(strcasecmp, sink += strcasecmp(s(n, 'a'), s(n, 'A')))                                 \
	F(strncasecmp, sink += strncasecmp(s(n, 'a'), s(n, 'A'), 200))                          \
	F(strncasecmp_bare, sink += strncasecmp(bare(n, 'a'), bare(n, 'A'), n))                 \
	F(strcmp, sink += strcmp(s(n, 'a'), s(n, 'a')))                                         \
	F(strcmp_longer, sink += strcmp(s(n, 'a'), s(n + 9, 'a')))                              \
	F(strncmp, sink += strncmp(s(n, 'a'), s(n, 'a'), 4096))                                 \
	F(strncmp_bare, sink += strncmp(bare(n, 'a'), bare(n, 'a'), n))                         \
	F(strverscmp, sink += strverscmp(s(n, '1'), s(n, '2')))                                 \
	F(strcoll, sink += strcoll(s(n, 'a'), s(n, 'b')))                                       \
	F(strxfrm, sink += strxfrm(s(5 * n, 0), s(n, 'a'), 5 * n + 1))                          \
	F(strlen, sink += strlen(s(n, 'a')))                                                    \
	F(strchr, sink += !!strchr(s(n, 'a'), 'x'))                                             \
	F(strchrnul, sink += *strchrnul(s(n, 'a'), 'x'))                                        \
	F(strrchr, sink += !!strrchr(s(n, 'a'), 'x'))                                           \
	F(index, sink += !!index(s(n, 'a'), 'x'))                                               \
	F(rindex, sink += !!rindex(s(n, 'a'), 'a'))                                             \
	F(rawmemchr, sink += *(char *)rawmemchr(s(n, 'a'), 0))                                  \
	F(memrchr, sink += !!memrchr(bare(n, 'a'), 'x', n))                                     \
	F(memchr, sink += !!memchr(s(n, 'a'), 0, 4096))                                         \
	F(memchr_bare, sink += !!memchr(bare(n, 'a'), 'x', n))                                  \
	F(memcmp, sink += memcmp(bare(n, 'a'), bare(n, 'b'), n))                                \
	F(memcmp_same, sink += memcmp(bare(n, 'a'), bare(n, 'a'), n))                           \
	F(bcmp, sink += bcmp(bare(n, 'a'), bare(n, 'a'), n))                                    \
	F(memccpy, sink += !!memccpy(s(n, 0), s(n, 'a'), 0, n + 1))                             \
	F(memcpy, memcpy(bare(n, 0), bare(n, 'a'), n))                                          \
	F(mempcpy, sink += !!mempcpy(bare(n, 0), bare(n, 'a'), n))                              \
	F(memmove, char *p = bare(n, 'a'); memmove(p, p + 1, n - 1))                            \
	F(bcopy, bcopy(bare(n, 'a'), bare(n, 0), n))                                            \
	F(memset, memset(bare(n, 'a'), 1, n))                                                   \
	F(bzero, bzero(bare(n, 'a'), n))                                                        \
	F(explicit_bzero, explicit_bzero(bare(n, 'a'), n))                                      \
	F(memfrob, memfrob(bare(n, 'a'), n))                                                    \
	F(strfry, sink += *strfry(s(n, 'a')))                                                   \
	F(swab, swab(bare(n & ~1, 'a'), bare(n & ~1, 'a'), n & ~1))                             \
	F(strnlen, sink += strnlen(s(n, 'a'), 4096))                                            \
	F(strnlen_bare, sink += strnlen(bare(n, 'a'), n))                                       \
	F(strcpy, strcpy(s(n, 0), s(n, 'a')))                                                   \
	F(stpcpy, sink += *stpcpy(s(n, 0), s(n, 'a')))                                          \
	F(strncpy, strncpy(bare(n, 0), bare(n, 'a'), n))                                        \
	F(strncpy_less, strncpy(s(n + 20, 'b'), s(n, 'a'), n + 20))                             \
	F(stpncpy, sink += *stpncpy(s(n, 'a'), s(n, 'b'), n))                                   \
	F(strcat, strcat(strcpy(s(2 * n, 'a'), s(n, 'b')), s(n, 'c')))                          \
	F(strncat, strncat(strcpy(s(2 * n, 'a'), s(n, 'b')), bare(n, 'c'), n))                  \
	F(strdup, sink += !!keep(strdup(s(n, 'a'))))                                            \
	F(strndup, sink += !!keep(strndup(bare(n, 'a'), n)))                                    \
	F(strsignal, sink += strlen(strsignal(n)))                                              \
	F(basename, sink += !!basename(s(n, 'a')))                                              \
	F(dirname, sink += !!dirname(s(n, 'a')))                                                \
	F(wcslen, sink += wcslen(w(n, 'a')))                                                    \
	F(wcsnlen, sink += wcsnlen(w(n, 'a'), 1000))                                            \
	F(wcsnlen_bare, sink += wcsnlen(wide_bare(n, 'a'), n))                                  \
	F(wcscspn, sink += wcscspn(w(n, 'a'), L"xyz"))                                          \
	F(wcsspn, sink += wcsspn(w(n, 'a'), L"abc"))                                            \
	F(wcspbrk, sink += !!wcspbrk(w(n, 'a'), L"xyz"))                                        \
	F(wcsstr, sink += !!wcsstr(w(n, 'a'), L"ab"))                                           \
	F(wcschr, sink += !!wcschr(w(n, 'a'), 'x'))                                             \
	F(wcsrchr, sink += !!wcsrchr(w(n, 'a'), 'x'))                                           \
	F(wcscmp, sink += wcscmp(w(n, 'a'), w(n, 'a')))                                         \
	F(wcsncmp, sink += wcsncmp(w(n, 'a'), w(n, 'a'), 1000))                                 \
	F(wcsncmp_bare, sink += wcsncmp(wide_bare(n, 'a'), wide_bare(n, 'a'), n))               \
	F(wcscasecmp, sink += wcscasecmp(w(n, 'a'), w(n, 'A')))                                 \
	F(wcscoll, sink += wcscoll(w(n, 'a'), w(n, 'b')))                                       \
	F(wcsxfrm, sink += wcsxfrm(w(5 * n, 0), w(n, 'a'), 5 * n + 1))                          \
	F(wcscpy, wcscpy(w(n, 0), w(n, 'a')))                                                   \
	F(wcsncpy, wcsncpy(wide_bare(n, 0), wide_bare(n, 'a'), n))                              \
	F(wcscat, wcscat(wcscpy(w(2 * n, 0), w(n, 'a')), w(n, 'b')))                            \
	F(wcsdup, sink += !!keep(wcsdup(w(n, 'a'))))                                            \
	F(wmemchr, sink += !!wmemchr(wide_bare(n, 'a'), 'x', n))                                \
	F(wmemcmp, sink += wmemcmp(wide_bare(n, 'a'), wide_bare(n, 'a'), n))                    \
	F(wmemcpy, wmemcpy(wide_bare(n, 0), wide_bare(n, 'a'), n))                              \
	F(wmemset, wmemset(wide_bare(n, 0), 'a', n))                                            \
	F(wcstol, sink += wcstol(w(n, '1'), NULL, 10) > 0)                                      \
	F(wcstod, sink += wcstod(w(n, '1'), NULL) > 0)                                          \
	F(wcstombs, sink += wcstombs(bare(n, 0), wide_bare(n, 'a'), n))                         \
	F(mbstowcs, sink += mbstowcs(w(n, 0), s(n, 'a'), n + 1))                                \
	F(mbsrtowcs, const char *from = s(n, 'a'); mbstate_t state; memset(&state, 0, sizeof(state)); \
	  sink += mbsrtowcs(w(n, 0), &from, n + 1, &state))                                     \
	F(mbrtowc, wchar_t c; mbstate_t state; memset(&state, 0, sizeof(state));                \
	  sink += mbrtowc(&c, bare(n, 'a'), n, &state))                                         \
	F(mblen, sink += mblen(bare(n, 'a'), n))                                                \
	F(strtod, sink += strtod(s(n, '1'), NULL) > 0)                                          \
	F(strtof, sink += strtof(s(n, '.'), NULL) > 0)                                          \
	F(strtold, sink += strtold(s(n, '1'), NULL) > 0)                                        \
	F(strtol, sink += strtol(s(n, '1'), NULL, 10) > 0)                                      \
	F(strtoull, sink += strtoull(s(n, 'f'), NULL, 16) > 0)                                  \
	F(atoi, sink += atoi(s(n, '1')) > 0)                                                    \
	F(atof, sink += atof(s(n, ' ')) > 0)                                                    \
	F(strtoimax, sink += strtoimax(s(n, '0'), NULL, 0) > 0)                                 \
	F(sscanf, char b[99]; sink += sscanf(s(n, 'a'), "%98s", b))                             \
	F(sscanf_number, int i; sink += sscanf(s(n, '1'), "%5d", &i))                           \
	F(sscanf_set, char b[99]; sink += sscanf(s(n, 'a'), "%98[a-z]", b))                     \
	F(sscanf_exact, sink += sscanf(s(n, 'a'), "%s", s(n, 0)))                               \
	F(swscanf, int i; sink += swscanf(w(n, '1'), L"%5d", &i))                               \
	F(snprintf, sink += snprintf(s(n, 0), n + 1, "%s", s(n, 'a')))                          \
	F(sprintf, sink += sprintf(s(n, 0), "%s", s(n, 'a')))                                   \
	F(sprintf_bare, sink += sprintf(s(n, 0), "%.*s", n, bare(n, 'a')))                      \
	F(sprintf_format, char b[200]; sink += snprintf(b, 200, s(n, 'a'), 1))                  \
	F(sprintf_wide, char b[400]; sink += snprintf(b, 400, "%ls", w(n, 'a')))                \
	F(swprintf, sink += swprintf(w(n, 0), n + 1, L"%ls", w(n, 'a')))                        \
	F(asprintf, char *p; sink += asprintf(&p, "%s", s(n, 'a')); keep(p))                    \
	F(fprintf, fprintf(null, "%s %-90s", s(n, 'a'), s(n, 'b')))                             \
	F(fputs, sink += fputs(s(n, 'a'), null))                                                \
	F(fputws, sink += fputws(w(n, 'a'), wide_null))                                         \
	F(fwrite, sink += fwrite(bare(n, 'a'), 1, n, null))                                     \
	F(write, sink += write(fileno(null), bare(n, 'a'), n))                                  \
	F(stream, read_stream(n))                                                               \
	F(getline, char *p = malloc(n); size_t l = n; FILE *f = fmemopen(s(n, 'a'), n, "r");   \
	  sink += getline(&p, &l, f); fclose(f); free(p))                                       \
	F(fopen, FILE *f = fopen(s(n, 'a'), s(1, 'r')); sink += !f; if (f) fclose(f))           \
	F(open, sink += open(s(n, 'a'), O_RDONLY) < 0)                                          \
	F(stat, struct stat st; sink += stat(s(n, 'a'), &st) < 0)                               \
	F(access, sink += access(s(n, 'a'), R_OK) < 0)                                          \
	F(realpath, char *p = realpath(s(n, 'a'), NULL); sink += !p; free(p))                   \
	F(fnmatch, sink += fnmatch(s(n, 'a'), s(n, 'a'), 0))                                    \
	F(fnmatch_star, sink += fnmatch("*b*", s(n, 'a'), 0))                                   \
	F(regex, match(n))                                                                      \
	F(glob, glob_t g; sink += glob(s(n, 'a'), 0, NULL, &g); globfree(&g))                   \
	F(wordexp, wordexp_t x; if (!wordexp(s(n, 'a'), &x, WRDE_NOCMD)) wordfree(&x))          \
	F(iconv, convert(n))                                                                    \
	F(strftime, char b[300]; time_t t = 0; sink += strftime(b, 300, s(n, 'a'), gmtime(&t))) \
	F(strptime, struct tm t; sink += !!strptime(s(n, '1'), "%Y", &t))                       \
	F(inet_pton, char b[16]; sink += inet_pton(AF_INET6, s(n, '1'), b))                     \
	F(inet_aton, struct in_addr a; sink += inet_aton(s(n, '1'), &a))                        \
	F(setenv, setenv(s(n, 'V'), s(n, 'a'), 1))                                              \
	F(getenv, sink += !!getenv(s(n, 'V')))                                                  \
	F(putenv, sink += !!strcmp(setlocale(LC_ALL, NULL), s(n, 'C')))                         \
	F(argz, split(n))                                                                       \
	F(qsort, qsort(bare(n, 'a'), n, 1, compare))                                            \
	F(bsearch, sink += !!bsearch("a", bare(n, 'a'), n, 1, compare))                         \
	F(lfind, size_t l = n; sink += !!lfind("b", bare(n, 'a'), &l, 1, compare))              \
	F(strerror_r, char *p = bare(n, 0); sink += !!strerror_r(2, p, n))                      \
	F(a64l, sink += a64l(s(n, 'a')))                                                        \
	F(dlsym, sink += !!dlsym(RTLD_DEFAULT, s(n, 'a')))                                      \
	F(dlopen, sink += !!dlopen(s(n, 'a'), RTLD_NOW))                                        \
	F(toupper, char *p = s(n, 'a'); for (; *p; p++) *p = (char)toupper(*p))

/* What a function has to read or write beyond the block. c: characters. */
#define WRONG(F)                                                                     \
	F(strlen, sink += strlen(bare(n, 'a')))                                      \
	F(strcpy, char b[4096]; strcpy(b, bare(n, 'a')))                             \
	F(strchr, sink += !!strchr(bare(n, 'a'), 'x'))                               \
	F(strtol, sink += strtol(bare(n, '1'), NULL, 10) > 0)                        \
	F(strtod, sink += strtod(bare(n, '1'), NULL) > 0)                            \
	F(snprintf, char b[4096]; sink += snprintf(b, sizeof(b), "%s", bare(n, 'a'))) \
	F(memcpy, char b[4096]; memcpy(b, bare(n, 'a'), n + 1))                      \
	F(memcpy_more, char b[4096]; memcpy(b, bare(n, 'a'), n + 40))                \
	F(memset, memset(bare(n, 'a'), 1, n + 1))                                    \
	F(memmove, char *p = bare(n, 'a'); memmove(p - 1, p, n))                     \
	F(strcpy_to, strcpy(bare(n, 0), s(n, 'a')))                                  \
	F(sprintf_to, sprintf(bare(n, 0), "%s", s(n, 'a')))                          \
	F(strncpy_to, strncpy(bare(n, 0), s(n, 'a'), n + 1))                         \
	F(wcslen, sink += wcslen(wide_bare(n / 4, 'a')))                             \
	F(read_to, sink += read(zero, bare(n, 'a'), n + 1))                          \
	F(fread_to, FILE *f = fdopen(dup(zero), "r"); sink += fread(bare(n, 'a'), 1, n + 1, f); fclose(f)) \
	F(strcat_to, strcat(strcpy(bare(n, 0), ""), s(n, 'a')))                      \
	F(qsort, qsort(bare(n, 'a'), n + 40, 1, compare))

static FILE *null;
static FILE *wide_null;
static int zero;

static int run_right(const char *name)
{
#define F(function, ...)                                        \
	if (!name || !strcmp(name, #function))                  \
		for (int n = 1; n < LONGEST; n++) {             \
			__VA_ARGS__;                            \
		}
	RIGHT(F)
#undef F
	return 0;
}

static int run_wrong(const char *name, int n)
{
#define F(function, ...)                \
	if (!strcmp(name, #function)) { \
		__VA_ARGS__;            \
		return 0;               \
	}
	WRONG(F)
#undef F
	return 2;
}

int main(int argc, char **argv)
{
	setlocale(LC_ALL, "C.UTF-8");
	null = fopen("/dev/null", "w");
	wide_null = fopen("/dev/null", "w");
	zero = open("/dev/zero", O_RDONLY);
	if (argc < 2 || !null || !wide_null || zero < 0)
		return 2;
	if (!strcmp(argv[1], "list")) {
#define F(function, ...) puts(#function);
		WRONG(F)
#undef F
		return 0;
	}
	if (!strcmp(argv[1], "wrong") && argc > 3)
		return run_wrong(argv[2], atoi(argv[3]));
	return run_right(argc > 2 ? argv[2] : NULL);
}
