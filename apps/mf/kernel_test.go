package mf

import (
	"fmt"
	"math"
	"testing"
)

func wave(n int, frequency float64) []float32 {
	v := make([]float32, n)
	for k := range v {
		v[k] = float32(math.Sin(frequency * float64(k+1)))
	}
	return v
}

// The compiler fuses on some processors only: also run this with GOAMD64=v3. (1+e)^2 - 1 needs 2e + e^2, but e^2 is lost when the product is rounded first; a fused multiply-add would
// keep it.
func TestBiasesAreNotFused(t *testing.T) {
	e := float32(1.0 / (1 << 13))
	x := 1 + e
	user, item := []float32{0, -1}, []float32{0, 0}
	r := rates{step: x, biasKeep: 1}
	learn(user, item, e, r, r) // the error is 1+e: -1 + (1+e)*(1+e)
	if want := 2 * e; user[1] != want {
		t.Errorf("a bias becomes %x, want %x", user[1], want)
	}
}

// learn moves against the gradient of half the penalised squared error, found here by differences.
func TestLearnFollowsTheGradient(t *testing.T) {
	const rank, rating, step, l2, biasL2 = 5, 0.8, 1e-3, 0.3, 0.2
	user, item := wave(rank+1, 0.9), wave(rank+1, 1.7)
	loss := func(user, item []float32) float64 {
		e := rating - float64(user[rank]) - float64(item[rank])
		var squares float64
		for k := range rank {
			e -= float64(user[k]) * float64(item[k])
			squares += float64(user[k])*float64(user[k]) + float64(item[k])*float64(item[k])
		}
		biases := float64(user[rank])*float64(user[rank]) + float64(item[rank])*float64(item[rank])
		return (e*e + l2*squares + biasL2*biases) / 2
	}
	newUser, newItem := append([]float32(nil), user...), append([]float32(nil), item...)
	r := rates{step: step, keep: 1 - step*l2, biasKeep: 1 - step*biasL2}
	e := learn(newUser, newItem, rating, r, r)
	if want := rating - float64(predict(user, item)); math.Abs(float64(e)-want) > 1e-6 {
		t.Errorf("error %v, want %v", e, want)
	}
	const h = 1e-2
	for name, pair := range map[string][2][]float32{"user": {user, newUser}, "item": {item, newItem}} {
		old, moved := pair[0], pair[1]
		for k := range old {
			was := old[k]
			old[k] = was + h
			above := loss(user, item)
			old[k] = was - h
			below := loss(user, item)
			old[k] = was
			want := -step * (above - below) / (2 * h)
			if got := float64(moved[k] - was); math.Abs(got-want) > 2e-6 {
				t.Errorf("%s[%d] moved by %v, want %v", name, k, got, want)
			}
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	for _, rank := range []int{16, 32, 64} {
		b.Run(fmt.Sprintf("rank=%d", rank), func(b *testing.B) {
			user, item := wave(rank+1, 0.9), wave(rank+1, 1.7)
			r := rates{step: 1e-3, keep: 0.999, biasKeep: 0.999}
			for b.Loop() {
				learn(user, item, 0.5, r, r)
			}
			b.ReportMetric(workPerExample(rank)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
		})
	}
}
