package fakecloud

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Machines with fewer vCPUs than this computer has cores get that many cores, spread over all.
func TestCoresOfMachines(t *testing.T) {
	c := cores{all: []int{2, 3, 5, 7}}
	first, second := c.take(2), c.take(1)
	if !slices.Equal(first, []int{2, 3}) || !slices.Equal(second, []int{5}) || c.take(4) != nil || c.take(0) != nil {
		t.Errorf("two machines have cores %v and %v", first, second)
	}
	c.release(first)
	if third := c.take(3); !slices.Equal(third, []int{2, 3, 7}) {
		t.Errorf("a third machine has cores %v", third)
	}
}

// A program is limited to its machine's cores, and the cloud keeps its own.
func TestProcessIsHeldToCores(t *testing.T) {
	all := coresHere()
	if len(all) < 2 {
		t.Skip("this computer has one core, or does not say")
	}
	command := exec.Command("sh", "-c", "nproc; (nproc)")
	var out bytes.Buffer
	command.Stdout = &out
	if err := startOn(all[1:2], command); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil || strings.Join(strings.Fields(out.String()), " ") != "1 1" {
		t.Errorf("it has %q cores, %v", out.String(), err)
	}
	if after := coresHere(); !slices.Equal(after, all) {
		t.Errorf("the cloud has cores %v of %v", after, all)
	}
}
