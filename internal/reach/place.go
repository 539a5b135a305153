// Package reach finds the way from here to the controller that keeps a cluster's jobs, and holds it open: the command that
// opens a tunnel, kept running for as long as somebody needs it, the controller's token, and which job went where.
//
// It refuses to know what is said on that way, and whose API tells where controllers are.
package reach

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/config"
)

// Place is where a controller is: whose machine, and how it is reached. It holds no secret.
type Place struct {
	Cloud    string `json:"cloud"` // ec2 or gce
	Region   string `json:"region"`
	Project  string `json:"project,omitempty"`
	Cluster  string `json:"cluster"`
	Instance string `json:"instance,omitempty"`
	Zone     string `json:"zone,omitempty"`
	URL      string `json:"url,omitempty"` // without a tunnel
	Port     int    `json:"port,omitempty"`
	Tunnel   string `json:"tunnel,omitempty"` // the command, when it is not the usual one
	Token    string `json:"token,omitempty"`  // likewise
}

// PlaceOf is what a job file says of its controller; which machine it is may be missing still (Complete).
func PlaceOf(at *config.Installation) Place {
	k := at.Controller
	return Place{Cloud: at.Block, Region: at.Region, Project: at.Project, Cluster: at.Cluster, Instance: k.Instance, Zone: k.Zone, URL: k.URL,
		Port: k.Port, Tunnel: k.Tunnel, Token: k.Token}
}

// Complete says that the controller can be reached: it need not be looked for.
func (p Place) Complete() bool {
	switch {
	case p.URL != "":
		return true
	case p.Tunnel != "":
		return p.Instance != "" || !strings.Contains(p.Tunnel, "{instance}")
	}
	return p.Instance != "" && (p.Zone != "" || p.Cloud != config.CloudGCE)
}

// Name tells places apart, and is one of a folder.
func (p Place) Name() string {
	parts := []string{p.Cloud, p.Project, p.Region, p.Cluster}
	var there []string
	for _, part := range parts {
		if part = strings.Map(plain, part); part != "" {
			there = append(there, part)
		}
	}
	return strings.Join(there, "-")
}

// plain keeps what every file system takes.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
		return r
	}
	return '_'
}

func (p Place) String() string {
	text := "the controller of cluster " + p.Cluster
	if p.Instance != "" {
		text += " (" + p.Instance + ")"
	}
	return text + " in " + p.Region
}

// fill puts names in the places of {instance} and so on, in each word by itself: what is put in is never cut in two.
func (p Place) fill(command string, local int) []string {
	names := strings.NewReplacer("{local}", strconv.Itoa(local), "{port}", strconv.Itoa(cmp.Or(p.Port, config.ControllerPort)),
		"{instance}", p.Instance, "{zone}", p.Zone, "{region}", p.Region, "{project}", p.Project, "{cluster}", p.Cluster)
	words := strings.Fields(command)
	for i := range words {
		words[i] = names.Replace(words[i])
	}
	return words
}

// The usual commands. Their words have no spaces but where %20 stands for one.
const (
	ssmTunnel = "aws ssm start-session --region {region} --target {instance} --document-name AWS-StartPortForwardingSession " +
		"--parameters portNumber={port},localPortNumber={local}"
	ssmToken = "aws ssm start-session --region {region} --target {instance} --document-name tierml-token-{cluster}"
	// Identity-Aware Proxy can connect to a port itself, but to one of the machine's address, and the controller listens on
	// loopback alone: so by SSH through it.
	iapTunnel = "gcloud compute ssh {instance} --project {project} --zone {zone} --tunnel-through-iap --quiet -- " +
		"-N -o ExitOnForwardFailure=yes -o ServerAliveInterval=15 -L 127.0.0.1:{local}:localhost:{port}"
	iapToken = "gcloud compute ssh {instance} --project {project} --zone {zone} --tunnel-through-iap --quiet --command sudo%20cat%20/var/lib/tierml/token"
)

// TunnelCommand opens a tunnel from a port of this host.
func (p Place) TunnelCommand(local int) []string {
	return p.command(p.Tunnel, ssmTunnel, iapTunnel, local)
}

// TokenCommand prints the token; nil where none is known.
func (p Place) TokenCommand() []string {
	if p.Token == "" && p.Instance == "" {
		return nil
	}
	return p.command(p.Token, ssmToken, iapToken, 0)
}

func (p Place) command(own, ssm, iap string, local int) []string {
	if own != "" {
		return p.fill(own, local)
	}
	usual := ssm
	if p.Cloud == config.CloudGCE {
		usual = iap
	}
	words := p.fill(usual, local)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "%20", " ")
	}
	return words
}

// programs are what the usual commands need, with where they are had.
func (p Place) programs(command []string) map[string]string {
	needed := map[string]string{command[0]: "install it, or write another command in " + p.Cloud + ".controller of the job file"}
	switch command[0] {
	case "aws":
		needed["aws"] = "install the AWS command line: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
		needed["session-manager-plugin"] = "install Session Manager's plugin: " +
			"https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
	case "gcloud":
		needed["gcloud"] = "install Google's command line: https://cloud.google.com/sdk/docs/install"
	}
	return needed
}

// advice says what can be done about a controller that does not answer.
func (p Place) advice() string {
	switch {
	case p.Instance == "":
		return "is it running?"
	case p.Cloud == config.CloudGCE:
		return fmt.Sprintf("see whether it runs: gcloud compute instances describe %s --project %s --zone %s --format 'value(status)'; if it is TERMINATED: "+
			"gcloud compute instances start %[1]s --project %[2]s --zone %[3]s", p.Instance, p.Project, p.Zone)
	}
	return fmt.Sprintf("see whether it runs: aws ec2 describe-instances --region %s --instance-ids %s --query 'Reservations[].Instances[].State.Name'; "+
		"if it is stopped: aws ec2 start-instances --region %[1]s --instance-ids %[2]s", p.Region, p.Instance)
}
