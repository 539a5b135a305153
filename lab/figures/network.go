package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// network is a set of hosts with shaped links to one switch: a network namespace each, and one for the switch.
type network struct {
	hosts      int
	neighbours []byte // the kernel's previous limit
}

// neighboursFile limits the neighbours of all namespaces together: 64 hosts that all know each other have 4096.
const neighboursFile = "/proc/sys/net/ipv4/neigh/default/gc_thresh3"

const (
	prefix     = "tierml-fig"
	controller = "10.77.0.1"
)

func hostName(n int) string    { return fmt.Sprintf("%s-%d", prefix, n) }
func hostAddress(n int) string { return fmt.Sprintf("10.77.1.%d", n+1) }

// layNetwork makes namespaces, links and their shapers. It first removes the remains of an earlier network.
func layNetwork(ctx context.Context, hosts int, rate string) (*network, error) {
	n := &network{hosts: hosts}
	n.remove()
	var err error
	if n.neighbours, err = os.ReadFile(neighboursFile); err != nil {
		return nil, fmt.Errorf("asking how many neighbours the kernel allows: %w", err)
	}
	if err := os.WriteFile(neighboursFile, []byte("65536\n"), 0o644); err != nil {
		return nil, fmt.Errorf("allowing more neighbours (it takes root): %w", err)
	}
	var script strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&script, format+"\n", args...) }
	hub := prefix + "-switch"
	add("ip netns add %s", hub)
	add("ip -n %s link add hub type bridge", hub)
	add("ip -n %s link set hub up", hub)
	add("ip link add tmlfig type veth peer name ctl netns %s", hub)
	add("ip addr add %s/16 dev tmlfig", controller)
	add("ip link set tmlfig up")
	add("ip -n %s link set ctl master hub up", hub)
	shape := "root tbf rate " + rate + " burst 16kb limit 2mb"
	for i := range hosts {
		name := hostName(i)
		add("ip netns add %s", name)
		add("ip -n %s link add net type veth peer name h%d netns %s", name, i, hub)
		add("ip -n %s addr add %s/16 dev net", name, hostAddress(i))
		add("ip -n %s link set net up", name)
		add("ip -n %s link set lo up", name)
		add("ip -n %s link set h%d master hub up", hub, i)
		add("tc -n %s qdisc add dev net %s", name, shape)
		add("tc -n %s qdisc add dev h%d %s", hub, i, shape)
	}
	command := exec.CommandContext(ctx, "bash", "-e")
	command.Stdin = strings.NewReader(script.String())
	if out, err := command.CombinedOutput(); err != nil {
		n.remove()
		return nil, fmt.Errorf("making network namespaces with shaped links (it takes root, ip and tc): %w\n%s", err, out)
	}
	return n, nil
}

func (n *network) remove() {
	var script strings.Builder
	fmt.Fprintf(&script, "ip link del tmlfig\nip netns del %s-switch\n", prefix)
	for i := range n.hosts {
		fmt.Fprintf(&script, "ip netns del %s\n", hostName(i))
	}
	command := exec.Command("bash")
	command.Stdin = strings.NewReader(script.String())
	_ = command.Run() // it may not exist
	if n.neighbours != nil {
		_ = os.WriteFile(neighboursFile, n.neighbours, 0o644) // nothing depends on it
	}
}
