package parallel

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

func TestForDoesEachTaskOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 8, 200} {
		done := make([]atomic.Int32, 100)
		For(threads, len(done), func(thread, task int) {
			if thread < 0 || thread >= max(threads, 1) {
				t.Errorf("thread %d of %d", thread, threads)
			}
			done[task].Add(1)
		})
		for task := range done {
			if n := done[task].Load(); n != 1 {
				t.Errorf("%d threads: task %d was done %d times", threads, task, n)
			}
		}
	}
}

func TestInOrder(t *testing.T) {
	broken := errors.New("broken")
	for _, threads := range []int{0, 1, 3, 8} {
		for _, fault := range []int{-1, 0, 7} {
			var got []int
			produce := func(i int) (int, error) {
				if i == fault {
					return 0, broken
				}
				return i * i, nil
			}
			err := InOrder(threads, 10, produce, func(i, square int) error {
				if i != len(got) || square != i*i {
					t.Errorf("%d threads: %d came as number %d, with %d", threads, i, len(got), square)
				}
				got = append(got, square)
				return nil
			})
			if want := fault; want < 0 && (err != nil || len(got) != 10) || want >= 0 && (!errors.Is(err, broken) || len(got) != want) {
				t.Errorf("%d threads, fault in %d: %v after %d", threads, fault, err, len(got))
			}
			if err := InOrder(threads, 10, produce, func(i, _ int) error { return fmt.Errorf("took %d", i) }); fault != 0 && (err == nil || err.Error() != "took 0") {
				t.Errorf("%d threads: %v", threads, err)
			}
		}
	}
}

// Random graphs: every task is done once, after all its predecessors.
func TestGraphKeepsTheOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(60)
		g, before := NewGraph(n), make([][]int, n)
		for range r.IntN(3 * n) {
			if first, second := r.IntN(n), r.IntN(n); first < second {
				g.Before(first, second)
				before[second] = append(before[second], first)
			}
		}
		for _, threads := range []int{1, 2, 5} {
			done := make([]atomic.Int32, n)
			g.Run(threads, func(task int) {
				for _, b := range before[task] {
					if done[b].Load() != 1 {
						t.Errorf("seed %d, %d threads: task %d began before %d was done", seed, threads, task, b)
					}
				}
				done[task].Add(1)
			})
			for task := range done {
				if done[task].Load() != 1 {
					t.Errorf("seed %d, %d threads: task %d was done %d times", seed, threads, task, done[task].Load())
				}
			}
		}
	}
}

func TestPanicsBecomeTheCallers(t *testing.T) {
	chain := NewGraph(50)
	for task := range 49 {
		chain.Before(task, task+1)
	}
	fail := func(task int) {
		if task == 25 {
			panic("broken")
		}
	}
	for _, threads := range []int{1, 2, 4} {
		for name, run := range map[string]func(){
			"For":   func() { For(threads, 50, func(_, task int) { fail(task) }) },
			"Graph": func() { chain.Run(threads, fail) },
		} {
			t.Run(fmt.Sprintf("%s/%d", name, threads), func(t *testing.T) {
				defer func() {
					p := recover()
					if threads == 1 {
						p = &Panic{Value: p, Stack: []byte("TestPanics")}
					}
					if p, ok := p.(*Panic); !ok || p.Value != "broken" || !bytes.Contains(p.Stack, []byte("TestPanics")) {
						t.Errorf("the caller got the panic %v", p)
					}
				}()
				run()
			})
		}
	}
}
