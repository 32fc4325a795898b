// The same workloads as the Rust side on Go's own timers, with the same command line and the same results:
// kit-go <workload> go key=value…. See src/main.rs for what comes out, and src/workload/ for what each workload is.
//
// A task is a time.AfterFunc: the runtime keeps it in a heap and runs it as a goroutine of its own, on as many
// processors as there are. It has no pool, so `workers` says nothing to it.
package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Why there is no result.
type unsupported string

func (why unsupported) Error() string { return string(why) }

// One measurement: what was asked for, and the line of results so far.
type bench struct {
	args map[string]string
	line []string
}

var workloads = map[string]func(*bench) error{
	"insert":   (*bench).insert,
	"timeout":  (*bench).timeout,
	"fire":     (*bench).fire,
	"lateness": (*bench).lateness,
	"periodic": (*bench).periodic,
	"memory":   (*bench).memory,
	"idle":     (*bench).idle,
	"ping":     (*bench).ping,
	"pause":    func(*bench) error { return unsupported("its clock cannot be stepped") },
}

func main() {
	b := &bench{args: map[string]string{}}
	err := b.run(os.Args[1:])
	var cannot unsupported
	switch {
	case err == nil:
		fmt.Println(strings.Join(b.line, " "))
	case errors.As(err, &cannot):
		fmt.Println("unsupported=" + string(cannot))
		os.Exit(3)
	default:
		fmt.Fprintln(os.Stderr, "kit-go:", err)
		os.Exit(1)
	}
}

func (b *bench) run(words []string) error {
	if len(words) < 2 {
		return errors.New("usage: kit-go <workload> go key=value…")
	}
	for _, word := range words[2:] {
		key, value, found := strings.Cut(word, "=")
		if !found {
			return fmt.Errorf("`%s` is not key=value", word)
		}
		b.args[key] = value
	}
	workload, found := workloads[words[0]]
	if !found {
		return fmt.Errorf("no workload `%s`", words[0])
	}
	return workload(b)
}

// The value of key, or otherwise. A value that is no number ends the program.
func (b *bench) get(key string, otherwise int) int {
	text, found := b.args[key]
	if !found {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "kit-go: `%s=%s` is not a value\n", key, text)
		os.Exit(1)
	}
	return value
}

func (b *bench) millis(key string, otherwise int) time.Duration {
	return time.Duration(b.get(key, otherwise)) * time.Millisecond
}

func (b *bench) put(key string, value float64) {
	text := strconv.FormatFloat(value, 'f', 3, 64)
	if value == float64(int64(value)) {
		text = strconv.FormatInt(int64(value), 10)
	}
	b.line = append(b.line, key+"="+text)
}

var shares = []struct {
	name  string
	share float64
}{
	{"p1", 0.01}, {"p10", 0.1}, {"p25", 0.25}, {"p50", 0.5}, {"p75", 0.75},
	{"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1},
}

// Quantiles of nanoseconds, in microseconds.
func (b *bench) putDistribution(nanos []int64) {
	sort.Slice(nanos, func(i, j int) bool { return nanos[i] < nanos[j] })
	for _, s := range shares {
		at := int(float64(len(nanos)-1)*s.share + 0.5)
		b.put(s.name+"_us", float64(nanos[at])/1e3)
	}
}
