package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The addresses at both ends of the cable.
const cableServer, cableClient = "10.78.0.1", "10.78.0.2"

// bursts are the shaper's bucket sizes: the smallest with which it can keep the rate, as it wakes some thousand times a
// second.
var bursts = map[string]string{"1gbit": "64kb", "10gbit": "512kb"}

// layCable makes two hosts, network namespaces of this machine, and a cable with a rate between them. It first removes
// the remains of an earlier one.
func layCable(ctx context.Context, rate string) (at ends, remove func(), skip string, err error) {
	if os.Geteuid() != 0 {
		return at, nil, "shaped links take root", nil
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return at, nil, "there is no " + tool + " (Debian: apt-get install iproute2)", nil
		}
	}
	hosts := [2]string{"tierml-bench-" + rate + "-a", "tierml-bench-" + rate + "-b"}
	remove = func() {
		for _, host := range hosts {
			_ = exec.Command("ip", "netns", "del", host).Run() // it may not exist
		}
	}
	remove()
	var script strings.Builder
	for _, host := range hosts {
		fmt.Fprintf(&script, "ip netns add %s\n", host)
	}
	fmt.Fprintf(&script, "ip -n %s link add net type veth peer name net netns %s\n", hosts[0], hosts[1])
	for i, host := range hosts {
		fmt.Fprintf(&script, "ip -n %s addr add %s/24 dev net\nip -n %s link set net up\n", host, [2]string{cableServer, cableClient}[i], host)
		fmt.Fprintf(&script, "tc -n %s qdisc add dev net root tbf rate %s burst %s limit 4mb\n", host, rate, bursts[rate])
	}
	command := exec.CommandContext(ctx, "bash", "-e")
	command.Stdin = strings.NewReader(script.String())
	if out, err := command.CombinedOutput(); err != nil {
		remove()
		return at, nil, "this machine makes no shaped links: " + strings.TrimSpace(string(out)), nil
	}
	in := func(host string) []string { return []string{"ip", "netns", "exec", host} }
	return ends{server: in(hosts[0]), client: in(hosts[1])}, remove, "", nil
}
