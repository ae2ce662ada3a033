// SPDX-License-Identifier: MIT

// language_go.go prints each call that test_language.sh looks at, as the ground truth.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

type pos struct {
	X, Y int32
}

type shape interface{ area() int }

type square struct{ side int }

func (s *square) area() int { return s.side * s.side }

var counter int64
var corner pos
var deep int

//go:noinline
func plain(n int, b bool, c uint8) int {
	counter += int64(n)
	corner.Y++
	if b {
		return n + int(c)
	}
	return n - int(c)
}

//go:noinline
func text(s string, list []int) (int, string) {
	return len(s) + len(list), s
}

//go:noinline
func member(p pos, s shape) (pos, error) {
	if s.area() > 10 {
		return p, errors.New("large")
	}
	return pos{p.Y, p.X}, nil
}

//go:noinline
func number(f float64, n int) float64 {
	return f * float64(n)
}

// Eleven do not fit in the registers.
//
//go:noinline
func many(a, b, c, d, e, f, g, h, i, j, k int) (int, int) {
	return a + b + c + d + e + f + g + h + i, j - k
}

// The stack grows, so the runtime moves it in the middle of the calls.
//
//go:noinline
func recurse(n int) int {
	var room [512]byte
	if n == 0 {
		return 0
	}
	room[n%512] = byte(n)
	return recurse(n-1) + 1 + int(room[(n+1)%512])
}

//go:noinline
func fails(n int) (r int) {
	defer func() {
		if recover() != nil {
			r = -n
		}
	}()
	if n%2 == 0 {
		panic("even")
	}
	return n
}

func line(round int) {
	n, b, c := 300+round%5, round%2 == 0, uint8(7)
	s, list := "round"[:1+round%5], []int{round, 20, 30}[:round%4]
	p, q := pos{int32(round), 5}, &square{round % 6}
	fmt.Println("plain", n, b, c, plain(n, b, c))
	l, t := text(s, list)
	fmt.Printf("text %q %v %d %q\n", s, list, l, t)
	r, err := member(p, q)
	fmt.Println("member", p.X, p.Y, r.X, r.Y, err != nil)
	fmt.Println("number", number(1.5, n))
	x, y := many(round, 2, 3, 4, 5, 6, 7, 8, 9, 10, round)
	fmt.Println("many", round, x, y)
	fmt.Println("fails", round, fails(round))
}

func main() {
	if len(os.Args) > 1 { // moves between threads and stacks
		for {
			done := make(chan int)
			for i := 0; i < 4; i++ {
				go func() {
					deep = recurse(200)
					runtime.Gosched()
					done <- 1
				}()
			}
			for i := 0; i < 4; i++ {
				<-done
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for round := 0; ; round++ {
		line(round % 60)
		time.Sleep(2 * time.Millisecond)
	}
}
