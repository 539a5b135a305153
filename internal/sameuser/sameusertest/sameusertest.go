// Package sameusertest plays another user of the host, for tests of code that must not trust one.
//
// It knows nothing about the code under test.
package sameusertest
