package jobrun

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/elasticity/hosts/desk"
	"github.com/tierml/tierml/internal/clock"
)

// RemoteClock asks a fake cloud in another process, or shared hosts, how market time relates to wall-clock time: the job's run must use its
// cloud's time.
func RemoteClock(ctx context.Context, job *config.Job, endpoint string) (clock.Mapping, error) {
	directory, shared := hostsDirectory(endpoint)
	if !shared && job.Cloud != config.CloudLocal {
		return clock.Mapping{}, fmt.Errorf("--endpoint is for cloud: local; write %s.endpoint in the job file", job.Cloud)
	}
	if shared {
		cloud, mapping, err := desk.Where(directory)
		if cloud = cmp.Or(cloud, config.CloudLocal); err == nil && cloud != job.Cloud {
			err = job.Fault("cloud", fmt.Sprintf("is %s, and these shared hosts are on %s", job.Cloud, cloud), "write cloud: "+cloud)
		}
		return mapping, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	url := strings.TrimSuffix(endpoint, "/") + "/_control/clock"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return clock.Mapping{}, fmt.Errorf("asking the fake cloud for its time: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return clock.Mapping{}, fmt.Errorf("asking the fake cloud for its time: %w", err)
	}
	defer response.Body.Close()
	var answer struct {
		Mapping string `json:"mapping"`
	}
	if response.StatusCode != http.StatusOK {
		return clock.Mapping{}, fmt.Errorf("asking the fake cloud for its time: %s: %s", url, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return clock.Mapping{}, fmt.Errorf("%s is no fake cloud: its answer to %s is no JSON; name the address that `tierml fakecloud` prints", endpoint, url)
	}
	return clock.Parse(answer.Mapping)
}
