// Package reach connects this host with the job server of a cluster: it finds the server, keeps the tunnel's command running as long as
// needed, fetches the server's token, and remembers which job was submitted where.
//
// It knows nothing about the traffic in the tunnel, or whose API lists job servers.
package reach

import (
	"cmp"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/providers"
)

// Place is where a job server is: whose machine, and how it is reached. It holds no secret.
type Place struct {
	Cloud    string `json:"cloud"` // the provider's name
	Region   string `json:"region"`
	Project  string `json:"project,omitempty"`
	Cluster  string `json:"cluster"`
	Instance string `json:"instance,omitempty"`
	Zone     string `json:"zone,omitempty"`
	URL      string `json:"url,omitempty"` // without a tunnel
	Port     int    `json:"port,omitempty"`
	Tunnel   string `json:"tunnel,omitempty"` // the command, if it is not the default
	Token    string `json:"token,omitempty"`  // likewise
}

// PlaceOf returns a job file's statements about its job server; the machine may still be missing (Complete).
func PlaceOf(at *config.Installation) Place {
	k := at.Controller
	return Place{Cloud: at.Block, Region: at.Region, Project: at.Project, Cluster: at.Cluster, Instance: k.Instance, Zone: k.Zone, URL: k.URL,
		Port: k.Port, Tunnel: k.Tunnel, Token: k.Token}
}

// Complete reports whether the job server can be reached without searching for it.
func (p Place) Complete() bool {
	switch {
	case p.URL != "":
		return true
	case p.Tunnel != "":
		return p.Instance != "" || !strings.Contains(p.Tunnel, "{instance}")
	}
	return p.Instance != "" && (p.Zone != "" || !p.usual().NeedsZone)
}

// Name distinguishes places, and is valid as a folder's name.
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

// plain keeps the characters that every file system accepts.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
		return r
	}
	return '_'
}

func (p Place) String() string {
	text := "the job server of cluster " + p.Cluster
	if p.Instance != "" {
		text += " (" + p.Instance + ")"
	}
	return text + p.inRegion()
}

// inRegion returns empty if the job file leaves the region open.
func (p Place) inRegion() string {
	if p.Region == "" {
		return ""
	}
	return " in " + p.Region
}

// fill replaces {instance} and so on, in each word separately: replaced values are never split.
func (p Place) fill(command string, local int) []string {
	names := p.names(local)
	words := strings.Fields(command)
	for i := range words {
		words[i] = names.Replace(words[i])
	}
	return words
}

func (p Place) names(local int) *strings.Replacer {
	return strings.NewReplacer("{local}", strconv.Itoa(local), "{port}", strconv.Itoa(cmp.Or(p.Port, config.ControllerPort)),
		"{instance}", p.Instance, "{zone}", p.Zone, "{region}", p.Region, "{project}", p.Project, "{cluster}", p.Cluster)
}

// usual returns how the provider's machines are reached by default. Its words have no spaces except as %20.
func (p Place) usual() providers.Reach {
	of, err := providers.Named(p.Cloud)
	if err != nil {
		return providers.Reach{} // of a program that knew more providers
	}
	return of.Facts().Reach
}

// TunnelCommand opens a tunnel from a port of this host.
func (p Place) TunnelCommand(local int) []string {
	return p.command(p.Tunnel, p.usual().Tunnel, local)
}

// TokenCommand prints the token; nil if none is known.
func (p Place) TokenCommand() []string {
	if p.Token == "" && p.Instance == "" {
		return nil
	}
	return p.command(p.Token, p.usual().Token, 0)
}

func (p Place) command(own, usual string, local int) []string {
	if own != "" {
		return p.fill(own, local)
	}
	words := p.fill(usual, local)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "%20", " ")
	}
	return words
}

// programs returns what the default commands need, and where to get it.
func (p Place) programs(command []string) map[string]string {
	needed := map[string]string{command[0]: "install it, or write another command in " + p.Cloud + ".controller of the job file"}
	if usual := p.usual(); usual.Programs[command[0]] != "" {
		return usual.Programs
	}
	return needed
}

// advice says what can be done about a job server that does not answer.
func (p Place) advice() string {
	if stopped := p.usual().Stopped; p.Instance != "" && stopped != "" {
		return p.names(0).Replace(stopped)
	}
	return "is it running?"
}

// MachineCommand runs a shell line on a machine of a run, at a terminal or not; nil if the provider is unknown. Codeless: it always exits
// with 0.
func (p Place) MachineCommand(line string, terminal bool) (command []string, codeless bool) {
	usual := p.usual()
	text := usual.Command
	if terminal {
		text = cmp.Or(usual.Shell, usual.Command)
	}
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false) // people read it
	_ = encoder.Encode(line)     // a string can be encoded
	names := strings.NewReplacer("{instance}", p.Instance, "{zone}", p.Zone, "{region}", p.Region, "{project}", p.Project,
		"{command}", line, "{command-json}", strings.TrimSpace(quoted.String()))
	words := strings.Fields(text)
	for i := range words {
		words[i] = names.Replace(words[i])
	}
	return words, usual.Codeless
}

// Missing names the programs that a provider's command needs and that are not installed, with where to get them.
func (p Place) Missing(command []string) (missing []string) {
	programs := p.programs(command)
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program+" is not here; "+programs[program])
		}
	}
	return missing
}
