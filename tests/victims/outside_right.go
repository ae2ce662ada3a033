// SPDX-License-Identifier: MIT
// outside_right.go SECONDS - locks, channels and atomic variables, and no race: see test_race_outside_languages.sh.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type account struct {
	mu      sync.Mutex
	balance int64
}

var acc account
var count atomic.Int64
var plain int64
var table = map[int]int{}
var rw sync.RWMutex
var once sync.Once
var conf *account

//go:noinline
func deposit() { acc.mu.Lock(); acc.balance++; acc.mu.Unlock() }

//go:noinline
func put(i int) { rw.Lock(); table[i%64]++; rw.Unlock() }

//go:noinline
func get(i int) int { rw.RLock(); defer rw.RUnlock(); return table[i%64] }

func config() *account { once.Do(func() { conf = &account{balance: 7} }); return conf }

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	work := make(chan []int, 16)
	var wg sync.WaitGroup
	for g := 0; g < 4; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for s := range work {
				for i := range s {
					s[i] *= 2
					deposit()
					put(i)
					count.Add(int64(get(i)) & 1)
					_ = config().balance
				}
				atomic.AddInt64(&plain, 1)
			}
		}()
	}
	for time.Now().Before(end) {
		s := make([]int, 64)
		for i := range s {
			s[i] = i
		}
		work <- s
	}
	close(work)
	wg.Wait()
	fmt.Println(acc.balance, count.Load(), plain)
}
