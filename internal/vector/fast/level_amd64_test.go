package fast

var detected = detect()

func useLevel(l int64) (restore func()) {
	before := level
	level = l
	return func() { level = before }
}
