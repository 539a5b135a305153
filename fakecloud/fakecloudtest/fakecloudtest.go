// Package fakecloudtest runs fake clouds for tests of their clients. It knows no client.
package fakecloudtest

import (
	"context"
	"testing"

	"github.com/tierml/tierml/fakecloud"
)

// Start runs a fake cloud until the test ends.
func Start(t testing.TB, c fakecloud.Config) *fakecloud.Cloud {
	t.Helper()
	fake, err := fakecloud.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fake.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the fake cloud ended with %v", err)
		}
	})
	return fake
}

// Do executes one step of a script at once, such as "evict i-1". A step that names machines must find some.
func Do(t testing.TB, fake *fakecloud.Cloud, step string) {
	t.Helper()
	s, err := fakecloud.ParseStep(step)
	if err != nil {
		t.Fatal(err)
	}
	if targets, err := fake.Make(fakecloud.Script{s}); err != nil || s.Target != "" && len(targets) == 0 {
		t.Fatalf("%s: %v, %v", step, targets, err)
	}
}
