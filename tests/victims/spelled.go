// SPDX-License-Identifier: MIT

// spelled.go has names of each form that Go gives to functions, for test_spelled.sh.
package main

import (
	"fmt"
	"time"
)

type Acc struct{ n int }

type BigAcc struct{ n int }

type Value int

type Box[T any] struct{ v T }

//go:noinline
func (a *Acc) Add(k int) int { a.n += k; return a.n }

//go:noinline
func (a *BigAcc) Add(k int) int { a.n += 2 * k; return a.n }

//go:noinline
func (v Value) Next() int { return int(v) + 1 }

//go:noinline
func (b *Box[T]) Set(v T) T { b.v = v; return v }

//go:noinline
func Map[T any](v T) T { return v }

func main() {
	a, big, box := &Acc{}, &BigAcc{}, &Box[int]{}
	for i := 0; ; i++ {
		fmt.Println(a.Add(i), big.Add(i), Value(i).Next(), box.Set(i), Map(i))
		time.Sleep(10 * time.Millisecond)
	}
}
