// SPDX-License-Identifier: MIT
// spelled.d - names of D: methods, functions in others, and those of templates.
module spelled;

import core.stdc.stdio : fflush, puts;
import core.thread : Thread;
import core.time : msecs;

__gshared long sink;

struct Buf(T)
{
	T[4] at;
	void put(T v)
	{
		at[0] = v;
		sink += v;
	}
}

class Conn
{
	int n;
	void push(int v)
	{
		n += v;
		sink += n;
	}

	void push(string s)
	{
		sink += s.length;
	}

	static int open(string s, int delegate(int) f)
	{
		return f(cast(int) s.length);
	}
}

struct Stack
{
	int x;
	void pushed(ref int y, int[] z, char[string] m, const(Conn) c)
	{
		x++;
		y += x;
		sink += y;
	}
}

T twice(T)(T v)
{
	return v + v;
}

int main()
{
	auto c = new Conn;
	Buf!int b;
	Stack s;
	int y;

	puts("ready");
	fflush(null);
	for (int i = 0; i < 20_000; i++)
	{
		int inner(int q)
		{
			return q + i;
		}

		c.push(i);
		c.push("ab");
		b.put(i);
		s.pushed(y, null, null, c);
		sink += twice(i) + twice(cast(long) i) + Conn.open("ab", &inner);
		Thread.sleep(5.msecs);
	}
	return 0;
}
