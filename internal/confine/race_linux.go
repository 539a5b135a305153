//go:build race && linux

package confine

// raceDetector: this program itself needs more memory than slots have.
const raceDetector = true
