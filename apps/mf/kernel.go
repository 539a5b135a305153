package mf

import "github.com/tierml/tierml/internal/vector"

// The inner loop gives the same result bit for bit on every processor: see package vector, and note that every product is converted to
// float32 before it is added, which forbids the compiler to fuse the two.
//
// A vector is one table row: the factors, then the bias.

// rates are the step sizes of one clock for users, or of one item.
type rates struct {
	step     float32
	keep     float32 // 1 - step * l2: what the penalty leaves of a factor
	biasKeep float32 // 1 - step * bias_l2
}

// predict returns the standardised rating that two rows predict.
func predict(user, item []float32) float32 {
	rank := len(user) - 1
	return (user[rank] + item[rank]) + vector.Dot(user[:rank], item[:rank])
}

// learn takes one step down the gradient of one rating, and returns the error before it. With e the error:
//
//	p += step * (e*q - l2*p)        q += step * (e*p - l2*q)        b += step * (e - bias_l2*b)
func learn(user, item []float32, rating float32, u, i rates) float32 {
	e := rating - predict(user, item)
	rank := len(user) - 1
	pullUser, pullItem := float32(u.step*e), float32(i.step*e)
	vector.Blend(user[:rank], item[:rank], u.keep, pullUser, i.keep, pullItem)
	user[rank] = float32(u.biasKeep*user[rank]) + pullUser
	item[rank] = float32(i.biasKeep*item[rank]) + pullItem
	return e
}

// workPerExample counts learn's floating-point operations: 2 per factor in vector.Dot, 6 in vector.Blend, and 11 more (error and bias sums
// 3, pulls 2, biases 4, the squared error and its sum 2).
func workPerExample(rank int) float64 { return float64(8*rank + 11) }
