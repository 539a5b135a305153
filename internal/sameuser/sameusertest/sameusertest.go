// Package sameusertest plays another user of the host, in tests of what must not believe one.
//
// It knows nothing about what is tested.
package sameusertest
