package vector

import "golang.org/x/sys/cpu"

// hasAVX2 decides what the assembly does.
//
//lint:ignore U1000 the assembly reads it
var hasAVX2 = cpu.X86.HasAVX2

//go:noescape
func dot(a, b *float32, n int) float32

//go:noescape
func axpy(a float32, x, y *float32, n int)

//go:noescape
func blend(p, q *float32, n int, pKeep, pPull, qKeep, qPull float32)

//go:noescape
func nesterov(w, v, sum *float32, n int, weight, momentum, rate float64)

//go:noescape
func finite(x *float32, n int) bool
