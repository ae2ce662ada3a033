// SPDX-License-Identifier: MIT
// outside_racy.go SECONDS - two races: see test_race_outside_languages.sh.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

type account struct{ balance, version int64 }

var shared int64
var acc = &account{}

//go:noinline
func spin(n int) int {
	x := 0
	for i := 0; i < n; i++ {
		x += i ^ n
	}
	return x
}

//go:noinline
func bump() { shared++ }

//go:noinline
func deposit(a *account, n int64) { a.balance += n; a.version++ }

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	done := make(chan int)
	for g := 0; g < 2; g++ {
		go func() {
			s := 0
			for time.Now().Before(end) {
				for i := 0; i < 100; i++ {
					bump()
					deposit(acc, 1)
					s += spin(100)
				}
			}
			done <- s
		}()
	}
	<-done
	<-done
	fmt.Println(shared, acc.balance)
}
