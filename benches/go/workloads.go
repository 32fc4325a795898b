package main

import (
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

const hour = int64(time.Hour)

// How many tasks have run that should not.
var ran int64

func count() { atomic.AddInt64(&ran, 1) }

func schedule(delay int64, body func()) *time.Timer {
	return time.AfterFunc(time.Duration(delay), body)
}

// Has a task run at once return value, and waits for it.
func ping(value int) int {
	result := make(chan int, 1)
	schedule(0, func() { result <- value })
	return <-result
}

// Runs prepare on each of so many threads, then what it returns on all of them at once; the nanoseconds from the first
// start to the last end.
func together(threads int, prepare func(thread int) func()) int64 {
	starts, ends := make([]int64, threads), make([]int64, threads)
	var ready, done sync.WaitGroup
	ready.Add(threads)
	done.Add(threads)
	for thread := 0; thread < threads; thread++ {
		go func(thread int) {
			defer done.Done()
			run := prepare(thread)
			ready.Done()
			ready.Wait()
			starts[thread] = now()
			run()
			ends[thread] = now()
		}(thread)
	}
	done.Wait()
	first, last := starts[0], ends[0]
	for thread := range starts {
		first, last = least(first, starts[thread]), most(last, ends[thread])
	}
	return last - first
}

func least(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func most(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// W1, W10: see src/workload/insert.rs
func (b *bench) insert() error {
	n, producers := b.get("n", 100_000), b.get("producers", 1)
	repeats := int(most(1, least(int64(100_000/n), 50)))
	nanos := make([]float64, repeats)
	settle := int64(0)
	for repeat := range nanos {
		each := n / producers
		timers := make([][]*time.Timer, producers)
		took := together(producers, func(thread int) func() {
			random := rand.New(rand.NewSource(int64(thread)))
			// There is no pool to throw away: a timer has to be stopped one by one if another round follows.
			timers[thread] = make([]*time.Timer, each)
			return func() {
				for at := 0; at < each; at++ {
					delay := hour + random.Int63n(hour)
					if b.args["order"] == "descending" {
						delay = 2*hour - hour/int64(each)*int64(at)
					}
					timers[thread][at] = schedule(delay, count)
				}
			}
		})
		nanos[repeat] = float64(took) / float64(each*producers)
		before := now()
		ping(1)
		settle = now() - before
		for _, timer := range flat(timers, repeat+1 < repeats) {
			if !timer.Stop() {
				return errors.New("a task an hour away could not be stopped")
			}
		}
		runtime.GC()
	}
	if atomic.LoadInt64(&ran) > 0 {
		return errors.New("a task ran an hour early")
	}
	sort.Float64s(nanos)
	b.put("ns", nanos[repeats/2])
	b.put("settle_ms", float64(settle)/1e6)
	return nil
}

func flat(lists [][]*time.Timer, isWanted bool) (all []*time.Timer) {
	for _, list := range lists {
		if isWanted {
			all = append(all, list...)
		}
	}
	return all
}

// W2, W10: see src/workload/timeout.rs
func (b *bench) timeout() error {
	pending, n, producers := b.get("pending", 100_000), b.get("n", 200_000), b.get("producers", 1)
	each := n / producers
	sixth := int64(b.get("seconds", 30)) * int64(time.Second) / 6
	begun, before := now(), live()
	missed := int64(0)
	handles := make([][]*time.Timer, producers)
	took := together(producers, func(thread int) func() {
		random := rand.New(rand.NewSource(int64(thread)))
		delay := func() int64 { return 5*sixth + random.Int63n(2*sixth) }
		mine := make([]*time.Timer, pending/producers)
		for at := range mine {
			mine[at] = schedule(delay(), count)
		}
		handles[thread] = mine
		pairs := func(operations int) {
			for i := 0; i < operations; i++ {
				at := random.Intn(len(mine))
				old := mine[at]
				mine[at] = schedule(delay(), count)
				if !old.Stop() {
					atomic.AddInt64(&missed, 1)
				}
			}
		}
		pairs(each / 2)
		return func() { pairs(each) }
	})
	switch {
	case now()-begun > 24*sixth/5:
		return unsupported("too slow: tasks came due before it was done")
	case missed > 0:
		return fmt.Errorf("%d cancels were refused, yet nothing was due", missed)
	case atomic.LoadInt64(&ran) > 0:
		return errors.New("a task ran early, or although it was cancelled")
	}
	perTask := float64(live()-before) / float64(pending)
	runtime.KeepAlive(handles)
	start := now()
	ping(1)
	settle := now() - start
	if err := verifyCancels(); err != nil {
		return err
	}
	b.put("ns", float64(took)/float64(each*producers))
	// A heap does not shrink and grow like resident memory; what is live in the end for each that is pending.
	b.put("live_bytes", perTask)
	b.put("settle_ms", float64(settle)/1e6)
	return nil
}

// W3, W3b: see src/workload/fire.rs
func (b *bench) fire() error {
	n, spread := b.get("n", 1_000_000), int64(b.millis("spread_ms", 100))
	if _, err := firePass(n/10, spread); err != nil {
		return err
	}
	took, err := firePass(n, spread)
	if err != nil {
		return err
	}
	b.put("per_s", float64(n)*1e9/float64(took))
	if b.get("workers", 1) > 1 {
		return nil
	}
	if spread > 0 {
		spread = int64(40 * time.Millisecond)
	}
	return b.verifyOrder(spread)
}

func firePass(n int, spread int64) (int64, error) {
	tally := newTally(n)
	random := rand.New(rand.NewSource(1))
	start := now()
	for i := 0; i < n; i++ {
		task := i
		schedule(random.Int63n(spread+1), func() { tally.mark(task) })
	}
	err := tally.wait()
	return now() - start, err
}

// W4: see src/workload/lateness.rs
func (b *bench) lateness() error {
	rate, length := b.get("rate", 10_000), int64(b.millis("millis", 5_000))
	n := int(int64(rate) * length / int64(time.Second))
	random := rand.New(rand.NewSource(int64(rate)))
	instants, starts := make([]int64, n), make([]int64, n)
	twice := int64(0)
	window := now() + int64(300*time.Millisecond) + int64(n)*4_000
	for i := range instants {
		task := i
		instants[i] = window + random.Int63n(length)
		schedule(instants[i]-now(), func() {
			if atomic.SwapInt64(&starts[task], now()) != 0 {
				atomic.AddInt64(&twice, 1)
			}
		})
	}
	overrun := now() > window
	sleepUntil(window)
	cpu := cpuNanos()
	sleepUntil(window + length)
	if !eventually(func() bool { return missing(starts) == 0 }) {
		return errors.New("a task did not run")
	}
	cpu = cpuNanos() - cpu
	if twice > 0 {
		return fmt.Errorf("%d tasks ran twice", twice)
	}
	if err := b.putLateness(starts, func(at int) int64 { return instants[at] }); err != nil {
		return err
	}
	b.put("cpu_ms", float64(cpu)/1e6)
	b.putBool("overrun", overrun)
	return nil
}

// W5: see src/workload/periodic.rs. It has no periodic functions: each run asks for the next.
func (b *bench) periodic() error {
	n, period, length := b.get("n", 10_000), int64(b.millis("period_ms", 100)), int64(b.millis("millis", 5_000))
	runs := int(length / period)
	starts := make([]int64, n*runs)
	base := now() + int64(200*time.Millisecond) + int64(n)*4_000
	deadline := func(at int) int64 {
		return base + period*int64(at/runs)/int64(n) + period*int64(at%runs)
	}
	for i := 0; i < n; i++ {
		task, run := i, 0
		var timer *time.Timer
		var isSet sync.WaitGroup
		isSet.Add(1)
		timer = schedule(deadline(task*runs)-now(), func() {
			isSet.Wait()
			atomic.StoreInt64(&starts[task*runs+run], now())
			if run++; run < runs {
				timer.Reset(time.Duration(deadline(task*runs+run) - now()))
			}
		})
		isSet.Done()
	}
	overrun := now() > base
	sleepUntil(base)
	cpu := cpuNanos()
	sleepUntil(base + length)
	cpu = cpuNanos() - cpu
	if !eventually(func() bool { return missing(starts) == 0 }) {
		return fmt.Errorf("%d of %d runs are missing", missing(starts), len(starts))
	}
	if err := b.putLateness(starts, deadline); err != nil {
		return err
	}
	b.put("cpu_ns", float64(cpu)/float64(len(starts)))
	b.putBool("overrun", overrun)
	return nil
}

func missing(starts []int64) (missing int) {
	for i := range starts {
		if atomic.LoadInt64(&starts[i]) == 0 {
			missing++
		}
	}
	return missing
}

func (b *bench) putLateness(starts []int64, deadline func(at int) int64) error {
	late, early := make([]int64, len(starts)), int64(0)
	for i := range late {
		by := atomic.LoadInt64(&starts[i]) - deadline(i)
		late[i], early = most(0, by), most(early, -by)
	}
	if early > 0 {
		return fmt.Errorf("a task started %d ns before its deadline", early)
	}
	b.putDistribution(late)
	b.put("early_us", float64(early)/1e3)
	return nil
}

func (b *bench) putBool(key string, isSo bool) {
	value := 0.0
	if isSo {
		value = 1
	}
	b.put(key, value)
}

// W6: see src/workload/memory.rs
func (b *bench) memory() error {
	n, keep := b.get("n", 1_000_000), b.get("keep", 0) == 1
	random := rand.New(rand.NewSource(1))
	handles := make([]*time.Timer, 0, n)
	before := live()
	for i := 0; i < n; i++ {
		first, second := int64(i), hour
		timer := schedule(hour+random.Int63n(hour), func() { atomic.AddInt64(&ran, first|second) })
		if keep {
			handles = append(handles, timer)
		}
	}
	ping(1)
	after := live()
	runtime.KeepAlive(handles)
	if atomic.LoadInt64(&ran) > 0 {
		return errors.New("a task ran an hour early")
	}
	b.put("bytes", float64(after-before)/float64(n))
	return nil
}

// W7: see src/workload/idle.rs
func (b *bench) idle() error {
	schedule(hour, count)
	length := b.millis("millis", 5_000)
	time.Sleep(300 * time.Millisecond)
	before, cpu := switches(), cpuNanos()
	time.Sleep(length)
	after := switches()
	cpu = cpuNanos() - cpu
	if atomic.LoadInt64(&ran) > 0 {
		return errors.New("a task ran an hour early")
	}
	b.put("switches_per_s", float64(after-before)/length.Seconds())
	b.put("cpu_us_per_s", float64(cpu)/1e3/length.Seconds())
	return nil
}

// W8: see src/workload/ping.rs
func (b *bench) ping() error {
	n := b.get("n", 20_000)
	nanos := make([]int64, 0, n)
	for i := 0; i < n+n/4; i++ {
		start := now()
		value := ping(i)
		took := now() - start
		if value != i {
			return fmt.Errorf("asked for %d and got %d", i, value)
		}
		if i >= n/4 {
			nanos = append(nanos, took)
		}
	}
	b.putDistribution(nanos)
	return nil
}
