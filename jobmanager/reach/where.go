package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/provisioner"
)

// InstallationFile is on every job server's machine: Terraform's settings, or those of the job that started it.
const InstallationFile = "/etc/tierml/installation.yaml"

// OnController reports whether this host is a job server's.
func OnController() bool {
	_, err := os.Stat(InstallationFile)
	return err == nil
}

// FindSettings is config.Find: by name from a file or a store, else this host's own, else those of the last started job server.
func FindSettings(cloud, name string) (text []byte, where string, err error) {
	if name == "" {
		if text, err := os.ReadFile(InstallationFile); err == nil {
			return text, InstallationFile, nil
		}
		shelf, err := UserRegistry()
		if err != nil {
			return nil, "", err
		}
		return shelf.Settings(cloud)
	}
	ctx, cancel := context.WithTimeout(context.Background(), settingsWithin)
	defer cancel()
	from, err := blob.Open(ctx, name)
	if err != nil {
		return nil, name, err
	}
	text, err = io.ReadAll(io.LimitReader(from, mostSettings))
	return text, name, errors.Join(err, from.Close())
}

const (
	settingsWithin = 30 * time.Second
	mostSettings   = 1 << 20
)

// IsHere reports whether a job should run on this host: its machines are processes here, or its file names the address of this host that
// machines reach, or this host is the job server's. A file that names the job server is for that one.
func IsHere(at *config.Installation, onController bool) bool {
	switch {
	case at == nil || onController:
		return true
	case at.Controller.Named():
		return false
	}
	return at.Listen != ""
}

// Meant separates the job servers that a job file refers to from those that may be another user's. A file that names its cluster or its job
// server refers to whatever is found. The default cluster is shared by all jobs that name none: there only the job servers of the file's
// owner count, and those that this user has started or used.
func Meant(at *config.Installation, found []provisioner.Controller, known []Known) (meant, others []provisioner.Controller) {
	for _, c := range found {
		used := slices.ContainsFunc(known, func(k Known) bool { return k.Place.Cloud == at.Block && k.Place.Instance == c.ID })
		if at.ClusterNamed || at.Controller.Instance == c.ID || at.Owner != "" && c.Owner == at.Owner || used {
			meant = append(meant, c)
		} else {
			others = append(others, c)
		}
	}
	return meant, others
}

// Foreign returns the refusal of a job server that may be another user's, and explains how to name it, or one's own.
func Foreign(at *config.Installation, c provisioner.Controller, file string) error {
	whose := "has no owner"
	if c.Owner != "" {
		whose = "belongs to " + c.Owner
	}
	return fmt.Errorf("%s may be somebody else's job server: %s does not name its cluster, and others use the default too; it %s\n"+
		"If it is yours      write cluster: %s below %s:\nFor your own        write cluster: and another name there", c.ID, file, whose, at.Cluster, at.Block)
}

// Choose completes a place from the cloud's list of the cluster's job servers. Its errors contain the remedy; file is the job's.
func Choose(p Place, found []provisioner.Controller, file string) (Place, error) {
	var running, others []string
	for _, c := range found {
		if p.Instance != "" && c.ID != p.Instance {
			continue
		}
		if !c.Running() {
			others = append(others, fmt.Sprintf("%s is %s", c.ID, c.State))
			continue
		}
		running = append(running, c.ID)
		p.Zone = c.Zone
	}
	switch {
	case len(running) == 1:
		p.Instance = running[0]
		return p, nil
	case len(running) > 1:
		return p, fmt.Errorf("cluster %s%s has several job servers: %s; name one in the job file, below %s: controller: {instance: %[5]s}",
			p.Cluster, p.inRegion(), strings.Join(running, ", "), p.Cloud, running[0])
	case len(others) > 0:
		one := p
		one.Instance = found[0].ID
		one.Zone = found[0].Zone
		return p, fmt.Errorf("the job server of cluster %s%s does not run: %s\n%s", p.Cluster, p.inRegion(), strings.Join(others, ", "), one.advice())
	}
	return p, fmt.Errorf("cluster %s%s has no job server: %w\nStart one         tierml server start %s\nOr with Terraform terraform/README.md\n"+
		"Or run it here    tierml run --here %[4]s   (machines must reach this host, and it must stay)", p.Cluster, p.inRegion(), errNone, file)
}

var errNone = errors.New("machines need one that they reach, and that stays when this host goes")
