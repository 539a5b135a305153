package provisioner_test

import (
	"fmt"

	"github.com/tierml/tierml/provisioner"
)

func ExampleRetryable() {
	throttled := fmt.Errorf("launching 4 machines: %w", provisioner.ErrThrottled)
	fmt.Println(provisioner.Retryable(throttled), provisioner.Retryable(provisioner.ErrDenied))
	// Output: true false
}

// After an error that is not definite, a machine may still have been bought.
func ExampleDefinite() {
	fmt.Println(provisioner.Definite(provisioner.ErrNoCapacity), provisioner.Definite(provisioner.ErrTemporary))
	// Output: true false
}
