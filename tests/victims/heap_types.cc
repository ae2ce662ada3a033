/* SPDX-License-Identifier: MIT */
/*
 * heap_types.cc MODE - uses a block after its release. Each mode allocates it in another way; the
 * comment says what it is, or that nothing shows it.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

struct point {
	double x, y;
};

struct shape {
	virtual ~shape()
	{
	}
	int id;
	point at[4];
};

struct circle : shape {
	double radius;
	char label[12];
};

struct node {
	node *next;
	int key;
};

struct twin {
	long a, b;
};

static volatile long sink;

static void *__attribute__((noinline)) allocate_or_die(size_t n)
{
	void *p = malloc(n);

	return p ? p : (abort(), p);
}

/* node: the result of a wrapper, in the line of the call. */
static node *__attribute__((noinline)) push(node *list, int key)
{
	node *n = (node *)allocate_or_die(sizeof(*n));

	n->next = list;
	n->key = key;
	return n;
}

/* node: its size and the result of the function. */
static node *__attribute__((noinline)) make_later()
{
	void *raw;

	raw = malloc(sizeof(node));
	memset(raw, 0, sizeof(node));
	return (node *)raw;
}

/* Two types of this size: nothing shows which. */
static node *__attribute__((noinline)) make_one_of_two(twin *other)
{
	void *raw;

	raw = malloc(sizeof(node));
	memset(raw, 0, sizeof(node));
	sink = sink + (other != nullptr);
	return (node *)raw;
}

/* Two of three are in use at the error. */
static void wrapper()
{
	volatile int count = 3; /* one call in a loop, at each optimisation */
	node *all[3];

	for (int i = 0; i < count; i++)
		all[i] = push(nullptr, i);
	free(all[1]);
	sink = sink + all[1]->key;
	free(all[0]);
	free(all[2]);
}

static void vector()
{
	auto *v = new std::vector<point>(10);
	point *raw = v->data();

	delete v;
	sink = sink + (long)raw[3].y;
}

static void unique()
{
	auto owner = std::make_unique<circle>();
	circle *c = owner.get();

	owner.reset();
	sink = sink + c->label[2];
}

/* char[12]: libc's function passes it on, with debug symbols of libc and without. */
static void text()
{
	char *s = strdup("hello world");

	free(s);
	sink = sink + s[3];
}

static void numbers()
{
	volatile int *a = (int *)malloc(40 * sizeof(int));

	a[40] = 3;
	sink = sink + a[39];
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	node *n = !strcmp(mode, "result")    ? make_later() :
		  !strcmp(mode, "ambiguous") ? make_one_of_two(nullptr) :
					       nullptr;

	if (!strcmp(mode, "wrapper"))
		wrapper();
	else if (!strcmp(mode, "vector"))
		vector();
	else if (!strcmp(mode, "unique"))
		unique();
	else if (!strcmp(mode, "text"))
		text();
	else if (!strcmp(mode, "numbers"))
		numbers();
	if (n) {
		free(n);
		sink = sink + n->key;
	}
	puts("went on");
	return 0;
}
