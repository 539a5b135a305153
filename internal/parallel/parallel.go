// Package parallel runs pieces of work on several threads of this process and waits for all. It does not
// know what the work is.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// For runs the tasks below n on several threads, each task once, and waits for all to finish. A task receives its thread's number, to
// select working memory. A panic in a task is passed to the caller, with its stack (Panic) if it was on another thread.
func For(threads, n int, do func(thread, task int)) {
	if threads = min(threads, n); threads <= 1 {
		for task := range n {
			do(0, task)
		}
		return
	}
	var next atomic.Int64
	onThreads(threads, func(thread int) {
		for task := int(next.Add(1)) - 1; task < n; task = int(next.Add(1)) - 1 {
			do(thread, task)
		}
	})
}

// Panic carries a panic from another thread, whose stack would otherwise be lost.
type Panic struct {
	Value any
	Stack []byte
}

// String implements fmt.Stringer: the runtime prints it for an unrecovered panic.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// onThreads runs a function once on each thread, including the caller's.
func onThreads(threads int, run func(thread int)) {
	var (
		wait   sync.WaitGroup
		panics = make(chan *Panic, threads)
	)
	guarded := func(thread int) {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case *Panic:
				panics <- p
			default:
				panics <- &Panic{Value: p, Stack: debug.Stack()}
			}
		}()
		run(thread)
	}
	for thread := 1; thread < threads; thread++ {
		wait.Go(func() { guarded(thread) })
	}
	guarded(0)
	wait.Wait()
	select {
	case p := <-panics:
		panic(p)
	default:
	}
}

// Graph has tasks some of which must run before others. Its tasks are numbered in a valid order for running them one after another.
type Graph struct {
	wants []int   // by task: how many tasks must be done before it
	then  [][]int // by task: which tasks wait for it
}

// NewGraph creates a graph of n unordered tasks.
func NewGraph(n int) *Graph { return &Graph{wants: make([]int, n), then: make([][]int, n)} }

// Before requires one task to run before another, which has a higher number.
func (g *Graph) Before(first, second int) {
	if first >= second {
		panic("parallel: a task must come after those that it waits for")
	}
	g.wants[second]++
	g.then[first] = append(g.then[first], second)
}

// Run runs all tasks on several threads, each after those it depends on, and waits for all to finish. A panic in a task is passed to the
// caller; then some tasks may not have run.
func (g *Graph) Run(threads int, do func(task int)) {
	if threads = min(threads, len(g.wants)); threads <= 1 {
		for task := range g.wants {
			do(task)
		}
		return
	}
	r := &graphRun{graph: g, wants: append([]int(nil), g.wants...), left: len(g.wants)}
	r.change.L = &r.lock
	for task, n := range r.wants {
		if n == 0 {
			r.ready = append(r.ready, task)
		}
	}
	onThreads(threads, func(int) { r.work(do) })
}

type graphRun struct {
	graph *Graph
	lock  sync.Mutex
	// Change wakes waiting threads: a task is ready or none is left.
	change sync.Cond
	wants  []int
	ready  []int // first in, first out
	left   int   // tasks that no thread has started; also 0 after a panic
}

func (r *graphRun) work(do func(task int)) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for {
		for len(r.ready) == 0 && r.left > 0 {
			r.change.Wait()
		}
		if r.left == 0 {
			return
		}
		task := r.ready[0]
		r.ready = r.ready[1:]
		if r.left--; r.left == 0 {
			r.change.Broadcast()
		}
		r.unlocked(task, do)
		for _, after := range r.graph.then[task] {
			if r.wants[after]--; r.wants[after] == 0 {
				r.ready = append(r.ready, after)
				r.change.Signal()
			}
		}
	}
}

// unlocked runs a task without the lock. If it panics, the other threads stop.
func (r *graphRun) unlocked(task int, do func(task int)) {
	r.lock.Unlock()
	done := false
	defer func() {
		r.lock.Lock()
		if !done {
			r.left = 0
			r.change.Broadcast()
		}
	}()
	do(task)
	done = true
}

// InOrder makes the things below n on several threads and passes them on one by one, in order. Each thread holds one at a time. The first
// error in that order is returned.
func InOrder[T any](threads, n int, produce func(i int) (T, error), take func(i int, made T) error) error {
	type result struct {
		made T
		err  error
	}
	results := make([]result, max(threads, 1))
	for first := 0; first < n; {
		some := min(n-first, len(results))
		For(threads, some, func(_, i int) {
			results[i].made, results[i].err = produce(first + i)
		})
		for i := range some {
			r := results[i]
			if r.err == nil {
				r.err = take(first+i, r.made)
			}
			if r.err != nil {
				return r.err
			}
			results[i] = result{}
		}
		first += some
	}
	return nil
}
