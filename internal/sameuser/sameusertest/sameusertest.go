// Package sameusertest plays another user of the host, in tests of what must not believe one.
//
// It refuses to know what is tested.
package sameusertest
