package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var epoch = time.Now()

// Nanoseconds since the process began.
func now() int64 { return int64(time.Since(epoch)) }

func sleepUntil(instant int64) { time.Sleep(time.Duration(instant - now())) }

// Looks again and again until it is so, or the patience is over.
func eventually(isSo func() bool) bool {
	end := now() + int64(50*time.Second)
	for !isSo() {
		if now() > end {
			return false
		}
		time.Sleep(200 * time.Microsecond)
	}
	return true
}

// Processor time of all threads, the collector's with them.
func cpuNanos() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// Context switches so far of all threads.
func switches() int64 {
	files, _ := filepath.Glob("/proc/self/task/*/status")
	sum := int64(0)
	for _, file := range files {
		// A thread may end between being listed and being read.
		text, _ := os.ReadFile(file)
		for _, line := range strings.Split(string(text), "\n") {
			if name, value, found := strings.Cut(line, ":"); found && strings.HasSuffix(name, "ctxt_switches") {
				count, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				sum += count
			}
		}
	}
	return sum
}

// Bytes of live objects.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
