// SPDX-License-Identifier: MIT
// program.go - a program in Go that behaves as guest.h says: goroutines, preemption, collections, panics.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

var counter int64
var file *os.File

func get(offset int64) uint32 {
	var b [4]byte
	file.ReadAt(b[:], offset)
	return binary.LittleEndian.Uint32(b[:])
}

func put(offset int64, value uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], value)
	file.WriteAt(b[:], offset)
}

func must(what bool, text string) {
	if what {
		return
	}
	file.WriteAt([]byte(text+"\x00"), 24)
	fmt.Println(text)
	os.Exit(1)
}

//go:noinline
func step(x int64) int64 {
	counter = x
	return x + 1
}

func deep(n int) (caught bool) {
	defer func() { caught = recover() != nil }()
	var p *int
	if n == 0 {
		return *p == 1
	}
	panic("deep")
}

func work() int {
	sum := 0
	for i := 0; i < 300; i++ {
		sum += len(make([]byte, i%50))
		if step(int64(i)) != int64(i)+1 {
			return -1
		}
	}
	return sum
}

func main() {
	file, _ = os.OpenFile(os.Args[2], os.O_RDWR, 0)
	put(12, uint32(os.Getpid()))
	ticks := make(chan os.Signal, 8)
	signal.Notify(ticks, syscall.SIGUSR1)
	for {
		var group sync.WaitGroup
		results := make([]int, 4)
		for i := range results {
			group.Add(1)
			go func(i int) {
				results[i] = work()
				group.Done()
			}(i)
		}
		group.Wait()
		for _, r := range results {
			must(r == results[0] && r > 0, "a goroutine has another result")
		}
		must(deep(1) && deep(0), "a panic was not caught")
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		select {
		case <-ticks:
		case <-time.After(20 * time.Second):
			must(false, "a signal is lost")
		}
		if get(16)%20 == 0 {
			must(exec.Command("true").Run() == nil, "a child failed")
		}
		put(16, get(16)+1)
		time.Sleep(3 * time.Millisecond)
		if get(0) != 0 {
			break
		}
	}
	fmt.Println("ok")
}
