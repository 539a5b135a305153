package prepare

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/planner/local"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/providers"
)

// ChecksOf returns the checks of a job.
func ChecksOf(job *config.Job) []doctor.Check {
	var checks []doctor.Check
	if job.IsHosts() {
		return ChecksOfHosts(job)
	}
	if job.Run != "" {
		checks = checksOfProgram(job)
	}
	if job.Train.Data != "" {
		checks = append(checks, doctor.Readable("training data", job.Train.Data, blob.Open))
	}
	return append(checks, checksOfCloud(job)...)
}

// checksOfCloud returns those of where machines are bought.
func checksOfCloud(job *config.Job) (checks []doctor.Check) {
	if job.Cloud == config.CloudLocal {
		return []doctor.Check{doctor.Prices(job, local.Load)}
	}
	at := job.Installation()
	if at == nil {
		return checks
	}
	client := &http.Client{Timeout: 20 * time.Second}
	provider, err := providers.Of(job)
	if err != nil {
		return append(checks, doctor.Check{Name: "cloud", Look: func(context.Context) (string, error) { return "", err }})
	}
	// A provider without an address of its own checks its endpoint itself, whose certificate this host may not know.
	if own := provider.Facts().Endpoint; own != "" {
		address := cmp.Or(at.Endpoint, strings.ReplaceAll(own, "{region}", at.Region))
		checks = append(checks, doctor.Endpoint(address, client, time.Now))
	}
	if at.Listen != "" {
		host, _, _ := net.SplitHostPort(at.Listen) // already checked
		checks = append(checks, doctor.Listening("listen address", net.JoinHostPort(host, "0"), "write an address of this host, by which machines reach it"))
	}
	checks = append(checks, provider.Checks(job)...)
	if at.Catalog != "" {
		checks = append(checks, catalogCheck(at))
	}
	switch {
	case at.Program.URL == "": // an image has it
	case strings.HasPrefix(at.Program.URL, "http"):
		checks = append(checks, doctor.Fetchable("program", at.Program.URL, client))
	default:
		checks = append(checks, doctor.Readable("program", at.Program.URL, blob.Open))
	}
	if job.Checkpoint.To != "" {
		store := doctor.Store{Write: blob.Write, Open: blob.Open, Remove: blob.Remove, Join: location.Join}
		checks = append(checks, store.Check(job.Checkpoint.To, rand.Text()[:8]))
	}
	return checks
}

// checksOfProgram checks a user's program: what it brings along.
func checksOfProgram(job *config.Job) (checks []doctor.Check) {
	if job.Workdir != "" {
		checks = append(checks, doctor.Check{Name: "workdir", Look: func(ctx context.Context) (string, error) {
			w, err := MeasureWorkdir(ctx, job)
			if err != nil {
				return "", doctor.Wrong("name in its .tierignore what the program does not need", "%v", err)
			}
			return fmt.Sprintf("%s in %d files, %s packed", progress.Size(w.Bytes), w.Files, progress.Size(w.Packed)), nil
		}})
	}
	if len(job.Secrets) > 0 {
		checks = append(checks, doctor.Check{Name: "secrets", Look: func(context.Context) (string, error) {
			if _, err := job.ReadSecrets(os.LookupEnv); err != nil {
				return "", doctor.Wrong("give each a value where tierml run is started, or a file", "%v", err)
			}
			return fmt.Sprintf("%d have values", len(job.Secrets)), nil
		}})
	}
	if job.Image != "" && job.Installation() == nil {
		checks = append(checks, doctor.Containers(program.Runtime))
	}
	return checks
}

// catalogCheck checks a job's own list of machine types.
func catalogCheck(at *config.Installation) doctor.Check {
	return doctor.Check{Name: "catalog", Look: func(context.Context) (string, error) {
		c, err := local.ReadCatalog(at.Catalog)
		if err != nil {
			return "", &doctor.Problem{What: err.Error(), Advice: "docs/prices.md says what a catalog looks like"}
		}
		if n := len(c.Types(at.Region)); n > 0 {
			return fmt.Sprintf("%d types of %s", n, at.Region), nil
		}
		return "", &doctor.Problem{What: "it has no types of " + at.Region, Advice: "name a catalog with " + at.Region}
	}}
}
