//go:build !race && linux

package confine

const raceDetector = false
