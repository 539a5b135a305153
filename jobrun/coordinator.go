package jobrun

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/program"
	"github.com/tierml/tierml/program/pack"
)

const (
	// coordinatorLog is below the run's logs.
	coordinatorLog = "coordinator.log"
	// coordinatorAgain is how long after its end a coordinator is restarted, in wall-clock time.
	coordinatorAgain = time.Second
)

// placeCoordinator chooses where the coordinator listens: like under the previous controller, or else next to the address that machines
// call, at the port after one that the job file names.
func (r *session) placeCoordinator() error {
	if r.cfg.Job.Coordinator == "" || r.state.Coordinator != "" {
		return nil
	}
	at, err := r.listenAt()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return fmt.Errorf("an address for the coordinator: %w", err)
	}
	if n, _ := strconv.Atoi(port); n > 0 {
		r.state.Coordinator = net.JoinHostPort(host, strconv.Itoa(n+1))
		return nil
	}
	free, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("a port for the coordinator: %w", err)
	}
	r.state.Coordinator = free.Addr().String()
	return free.Close()
}

// runCoordinator runs the job's coordinator, restarting it when it ends, until stop is called.
func (r *session) runCoordinator(ctx context.Context) (stop func(), err error) {
	job := r.cfg.Job
	if job.Coordinator == "" {
		return func() {}, nil
	}
	dir := job.Workdir
	if info, err := os.Stat(dir); dir == "" || err == nil && info.Mode().IsRegular() { // the folder is packed, or there is none
		dir = filepath.Join(r.cfg.Directory, "coordinator")
		if err := unpackFor(ctx, job.Workdir, dir); err != nil {
			return nil, fmt.Errorf("the coordinator's folder: %w", err)
		}
	}
	script := filepath.Join(r.cfg.Directory, "coordinator.sh")
	if err := os.WriteFile(script, []byte(job.Coordinator+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("the coordinator: %w", err)
	}
	if script, err = filepath.Abs(script); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(r.cfg.Directory, rundir.LogsDir, coordinatorLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the coordinator's log: %w", err)
	}
	host, port, _ := net.SplitHostPort(r.state.Coordinator)
	env := os.Environ()
	variables := map[string]string{"MASTER_ADDR": host, "MASTER_PORT": port, "NNODES": strconv.Itoa(job.Resources.Count.Most), "PYTHONUNBUFFERED": "1", "TIERML_RUN": r.name}
	maps.Copy(variables, job.Envs)
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		defer log.Close()
		for ctx.Err() == nil {
			code, err := program.RunScript(ctx, script, dir, env, log)
			if ctx.Err() != nil {
				return
			}
			r.cfg.Log.Warn("the coordinator has ended, and is started again; its output is in "+log.Name(), "exit code", code, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(coordinatorAgain):
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}, nil
}

// unpackFor creates a folder from a packed file, if there is one.
func unpackFor(ctx context.Context, packed, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil || packed == "" {
		return err
	}
	from, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer from.Close()
	return pack.Unpack(ctx, from, dir, "", 0)
}
