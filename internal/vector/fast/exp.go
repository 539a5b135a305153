package fast

import "math"

// Exp returns e to the power of x to about six digits, for x from -80 to 80; x beyond that is clamped.
func Exp(x float32) float32 {
	x = min(max(x, -80), 80)
	// exp(x) = 2^whole * exp(rest), |rest| up to half of ln 2, by Taylor series.
	const log2e, ln2High, ln2Low = 1.44269504, 0.693359375, -2.12194440e-4
	whole := float32(int32(x*log2e+256.5) - 256)
	rest := x - whole*ln2High - whole*ln2Low
	sum := 1 + rest*(1+rest*(0.5+rest*(1.0/6+rest*(1.0/24+rest*(1.0/120+rest*(1.0/720))))))
	return sum * math.Float32frombits(uint32(int32(whole)+127)<<23)
}
