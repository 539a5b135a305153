// Package sameusertest plays another user of the host, in tests of what must not believe one.
//
// It knows nothing about the code under test.
package sameusertest
