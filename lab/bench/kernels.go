package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/tierml/tierml/internal/vector/fast"
)

// kernels compares the inner loops with a C compiler's code for equal ones.
var kernels = Group{Name: "kernels", Title: "Inner loops, with " + fast.Instructions(), Pairs: 15, Open: openKernels}

func openKernels(ctx context.Context, env *Env) ([]Row, func(), error) {
	c, end := (*Process)(nil), func() {}
	program, skip := env.Compile(ctx, "kernels.c", "-ffast-math", "-mprefer-vector-width=512")
	if skip == "" {
		var err error
		if c, err = Start(ctx, nil, program); err != nil {
			return nil, nil, err
		}
		end = c.Close
	}
	var rows []Row
	for _, what := range []string{"dot", "axpy"} {
		for _, n := range []int{100, 1000} {
			calls := 400_000_000 / (n + 50)
			rows = append(rows, Row{
				What: fmt.Sprintf("%s of %d float32", what, n), Against: "C -O3 -ffast-math, 512 bit",
				Unit: "calls/s", Bar: 0.75, Skip: skip,
				Ours: func(context.Context) (float64, error) { return callsPerSecond(what, n, calls), nil },
				Theirs: func(context.Context) (float64, error) {
					took, err := c.Ask("%s %d %d", what, n, calls)
					if err != nil {
						return 0, err
					}
					return float64(calls) / took[0] * 1e9, nil
				},
			})
		}
	}
	return rows, end, nil
}

func callsPerSecond(what string, n, calls int) float64 {
	a, b := aligned(n), aligned(n)
	for i := range n {
		a[i], b[i] = float32(i%7), float32(i%5)
	}
	began := time.Now()
	if what == "dot" {
		var sum float32
		for range calls {
			sum += fast.Dot(a, b)
		}
		runtime.KeepAlive(sum)
	} else {
		for range calls {
			fast.Axpy(1e-9, a, b)
		}
	}
	return float64(calls) / time.Since(began).Seconds()
}

// aligned returns numbers that begin at a cache line, as in C.
func aligned(n int) []float32 {
	const line = 64
	memory := make([]float32, n+line/4)
	past := int(uintptr(unsafe.Pointer(&memory[0])) % line / 4)
	return memory[(line/4-past)%(line/4):][:n]
}
