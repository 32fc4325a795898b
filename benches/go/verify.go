package main

import (
	"errors"
	"fmt"
	"math/rand"
	"sort"
	"sync/atomic"
	"time"
)

// Which tasks have run, and how many.
type tally struct {
	marks []int32
	count int64
}

func newTally(tasks int) *tally { return &tally{marks: make([]int32, tasks)} }

func (t *tally) mark(task int) {
	atomic.AddInt32(&t.marks[task], 1)
	atomic.AddInt64(&t.count, 1)
}

// How many of every other task have run, the first of them being from.
func (t *tally) ran(from int) (ran int) {
	for i := from; i < len(t.marks); i += 2 {
		ran += int(atomic.LoadInt32(&t.marks[i]))
	}
	return ran
}

// Waits until every task has run, then checks that each did exactly once.
func (t *tally) wait() error {
	eventually(func() bool { return atomic.LoadInt64(&t.count) >= int64(len(t.marks)) })
	lost, again := 0, 0
	for i := range t.marks {
		switch runs := atomic.LoadInt32(&t.marks[i]); {
		case runs == 0:
			lost++
		case runs > 1:
			again++
		}
	}
	if lost+again > 0 {
		return fmt.Errorf("of %d tasks %d did not run and %d ran more than once", len(t.marks), lost, again)
	}
	return nil
}

// Cancelled tasks do not run, others do.
func verifyCancels() error {
	const tasks, delay = 400, int64(150 * time.Millisecond)
	tally := newTally(tasks)
	begun := now()
	timers := make([]*time.Timer, tasks)
	for i := range timers {
		task := i
		timers[i] = schedule(delay, func() { tally.mark(task) })
	}
	for i := 1; i < tasks; i += 2 {
		timers[i].Stop()
	}
	// On a machine that stood still for so long, a cancel may rightly have come too late.
	inTime := now()-begun < delay*2/3
	over := make(chan struct{})
	schedule(delay+int64(20*time.Millisecond), func() { close(over) })
	<-over
	if !eventually(func() bool { return tally.ran(0) == tasks/2 }) {
		return errors.New("a task that was not cancelled did not run")
	}
	if cancelled := tally.ran(1); inTime && cancelled > 0 {
		return fmt.Errorf("%d of %d cancelled tasks ran", cancelled, tasks/2)
	}
	return nil
}

// None runs early; how many start after one with a later deadline is only counted, as goroutines promise no order.
func (b *bench) verifyOrder(spread int64) error {
	const tasks = 5_000
	lead := int64(0)
	if spread > 0 {
		lead = int64(40 * time.Millisecond)
	}
	type seen struct{ earliest, latest, start, turn int64 }
	all := make([]seen, tasks)
	turn := int64(0)
	tally := newTally(tasks)
	random := rand.New(rand.NewSource(7))
	for i := range all {
		task := i
		delay := lead + random.Int63n(spread+1)
		all[i].earliest = now() + delay
		schedule(delay, func() {
			atomic.StoreInt64(&all[task].start, now())
			atomic.StoreInt64(&all[task].turn, atomic.AddInt64(&turn, 1))
			tally.mark(task)
		})
		all[i].latest = now() + delay
	}
	scheduled := now()
	if err := tally.wait(); err != nil {
		return err
	}
	sort.Slice(all, func(i, j int) bool { return all[i].turn < all[j].turn })
	early, high, disorder := int64(0), int64(0), 0
	for _, task := range all {
		early = most(early, task.earliest-task.start)
		if spread == 0 || task.start > scheduled {
			if task.latest < high {
				disorder++
			}
			high = most(high, task.earliest)
		}
	}
	if early > 0 {
		return fmt.Errorf("a task started %d ns before its deadline", early)
	}
	b.put("disorder", float64(disorder))
	b.put("early_us", float64(early)/1e3)
	return nil
}
