//go:build !amd64

package vector

func dot(a, b *float32, n int) float32 { return dotGo(a, b, n) }

func axpy(a float32, x, y *float32, n int) { axpyGo(a, x, y, n) }

func blend(p, q *float32, n int, pKeep, pPull, qKeep, qPull float32) {
	blendGo(p, q, n, pKeep, pPull, qKeep, qPull)
}

func nesterov(w, v, sum *float32, n int, weight, momentum, rate float64) {
	nesterovGo(w, v, sum, n, weight, momentum, rate)
}

func finite(x *float32, n int) bool { return finiteGo(x, n) }
