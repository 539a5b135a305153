package mf

// The inner loop. It is written for the same result bit for bit on every processor, which the deterministic
// mode of the parameter server rests on:
//
//   - Every product is converted to float32 before it is added, also when it first goes to a variable. The
//     conversion is what forbids the compiler to fuse the two operations into one with a single rounding (Go
//     specification, "Floating-point operators"), as it would on arm64 and on amd64 with GOAMD64=v3.
//   - Sums have one shape: eight running sums, element k going to sum k mod 8, then a tree. That is what
//     eight-lane vector registers do, so that a vector kernel can give the same bits.
//
// A vector is one table row: the factors, then the bias.

// lanes is the number of running sums in dot.
const lanes = 8

// dot gives the scalar product of two vectors of the same length.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(a) >= lanes && len(b) >= lanes {
		s0 += float32(a[0] * b[0])
		s1 += float32(a[1] * b[1])
		s2 += float32(a[2] * b[2])
		s3 += float32(a[3] * b[3])
		s4 += float32(a[4] * b[4])
		s5 += float32(a[5] * b[5])
		s6 += float32(a[6] * b[6])
		s7 += float32(a[7] * b[7])
		a, b = a[lanes:], b[lanes:]
	}
	if len(a) > 0 {
		var tail [lanes]float32 // the missing elements are zeros
		for k := range a {
			tail[k] = float32(a[k] * b[k])
		}
		s0, s1, s2, s3 = s0+tail[0], s1+tail[1], s2+tail[2], s3+tail[3]
		s4, s5, s6, s7 = s4+tail[4], s5+tail[5], s6+tail[6], s7+tail[7]
	}
	return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}

// blend sets p to pKeep*p + pPull*q and q to qKeep*q + qPull*p, both from the old values.
func blend(p, q []float32, pKeep, pPull, qKeep, qPull float32) {
	q = q[:len(p)]
	for k, old := range p {
		p[k] = float32(pKeep*old) + float32(pPull*q[k])
		q[k] = float32(qKeep*q[k]) + float32(qPull*old)
	}
}

// rates are the step sizes of one clock for users, or of one item.
type rates struct {
	step     float32
	keep     float32 // 1 - step * l2: what the penalty leaves of a factor
	biasKeep float32 // 1 - step * bias_l2
}

// predict gives the standardised rating that two rows predict.
func predict(user, item []float32) float32 {
	rank := len(user) - 1
	return (user[rank] + item[rank]) + dot(user[:rank], item[:rank])
}

// learn takes one step down the gradient of one rating, and gives the error before it. With e the error:
//
//	p += step * (e*q - l2*p)        q += step * (e*p - l2*q)        b += step * (e - bias_l2*b)
func learn(user, item []float32, rating float32, u, i rates) float32 {
	e := rating - predict(user, item)
	rank := len(user) - 1
	pullUser, pullItem := float32(u.step*e), float32(i.step*e)
	blend(user[:rank], item[:rank], u.keep, pullUser, i.keep, pullItem)
	user[rank] = float32(u.biasKeep*user[rank]) + pullUser
	item[rank] = float32(i.biasKeep*item[rank]) + pullItem
	return e
}

// workPerExample counts learn's floating-point operations: 2 per factor in dot, 6 per factor in blend, and
// 11 besides (error and bias sums 3, pulls 2, biases 4, the squared error and its sum 2).
func workPerExample(rank int) float64 { return float64(8*rank + 11) }
