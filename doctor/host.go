package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The minimum requirements of a run on a host.
const (
	enoughDisk  = 1 << 30
	scarceDisk  = 5 << 30
	baseFiles   = 256
	perMachine  = 24 // files and connections that the controller and the fake cloud hold per machine
	mildSkew    = 10 * time.Second
	severeSkew  = 4 * time.Minute // providers refuse signatures that are five minutes off
	earliestUse = 2025            // a clock that shows an earlier year has not been set
)

// Disk checks that files can be written to a directory, and how much free space it has.
func Disk(dir string, free func(string) (uint64, error)) Check {
	return Check{Name: "disk", Look: func(context.Context) (string, error) {
		if os.Mkdir(dir, 0o755) == nil {
			defer os.Remove(dir) // an examination leaves nothing, except what a run may have put there meanwhile
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", Wrong("start tierml in a directory that you may write to", "%s cannot be made: %v", dir, err)
		}
		file, err := os.CreateTemp(dir, ".doctor-")
		if err != nil {
			return "", Wrong("start tierml in a directory that you may write to", "%s cannot be written to: %v", dir, err)
		}
		if err := errors.Join(file.Close(), os.Remove(file.Name())); err != nil {
			return "", err
		}
		room, err := free(dir)
		if err != nil {
			return "", Warn("", "the free space is unknown: %v", err)
		}
		switch {
		case room < enoughDisk:
			return "", Wrong("make room: a run keeps its data's splits, checkpoints and logs there", "only %s are free in %s", bytesText(room), dir)
		case room < scarceDisk:
			return "", Warn("make room, or write checkpoint.to: s3://BUCKET/PREFIX", "only %s are free in %s", bytesText(room), dir)
		}
		return bytesText(room) + " free in " + dir, nil
	}}
}

// FreeBytes queries the file system.
func FreeBytes(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

func bytesText(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.0f MB", float64(n)/(1<<20))
}

// OpenFiles checks whether a process may open as many files and connections as a run with this many machines needs.
func OpenFiles(machines int, limit func() (uint64, error)) Check {
	return Check{Name: "open files", Look: func(context.Context) (string, error) {
		most, err := limit()
		if err != nil {
			return "", Warn("", "the limit is unknown: %v", err)
		}
		if needed := uint64(baseFiles + perMachine*machines); most < needed {
			return "", Wrong(fmt.Sprintf("raise it: ulimit -n %d (in a systemd unit: LimitNOFILE=%[1]d)", needed), "%d files may be open; %d machines take up to %d",
				most, machines, needed)
		}
		return fmt.Sprintf("%d may be open", most), nil
	}}
}

// FileLimit queries the system. Go raises the soft limit to the hard one itself.
func FileLimit() (uint64, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, err
	}
	return uint64(r.Max), nil
}

// Listening checks whether a port of an address can be opened; port 0 means any.
func Listening(name, address, advice string) Check {
	return Check{Name: name, Look: func(ctx context.Context) (string, error) {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return "", Wrong(advice, "%s cannot be listened on: %v", address, err)
		}
		at := listener.Addr().String()
		return "listened on " + at, listener.Close()
	}}
}

// Year checks whether the host's clock is set at all.
func Year(now func() time.Time) Check {
	return Check{Name: "clock", Look: func(context.Context) (string, error) {
		t := now().UTC()
		if t.Year() < earliestUse {
			return "", Wrong("set it, and let it be kept by NTP: timedatectl set-ntp true", "this host's clock shows %s", t.Format(time.DateTime))
		}
		return t.Format(time.DateTime) + " UTC", nil
	}}
}

// Endpoint checks whether a provider's address answers, and compares its clock with this host's.
func Endpoint(url string, client *http.Client, now func() time.Time) Check {
	return Check{Name: "network and clock", Look: func(ctx context.Context) (string, error) {
		const advice = "look at the network of this host: DNS, firewall, proxy (HTTPS_PROXY), a route to the internet or a VPC endpoint"
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", Wrong("write an endpoint such as https://HOST", "%s is no address: %v", url, err)
		}
		began := now()
		response, err := client.Do(request)
		if err != nil {
			return "", Wrong(advice, "%s does not answer: %v", url, err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // the response does not matter
		took := now().Sub(began)
		theirs, err := http.ParseTime(response.Header.Get("Date"))
		if err != nil {
			return fmt.Sprintf("%s answers in %v; it does not report its time", url, took.Round(time.Millisecond)), nil
		}
		skew := began.Add(took / 2).Sub(theirs).Round(time.Second)
		if skew.Abs() > mildSkew {
			text := fmt.Sprintf("this host's clock is %v off %s's", skew, url)
			const set = "let it be kept by NTP: timedatectl set-ntp true"
			if skew.Abs() > severeSkew {
				return "", Wrong(set, "%s: signatures will be refused", text)
			}
			return "", Warn(set, "%s", text)
		}
		return fmt.Sprintf("%s answers in %v; clocks agree within %v", url, took.Round(time.Millisecond), max(skew.Abs(), time.Second)), nil
	}}
}

// Readable checks whether a file or an object can be read.
func Readable(name, path string, open func(context.Context, string) (io.ReadCloser, error)) Check {
	return Check{Name: name, Look: func(ctx context.Context) (string, error) {
		file, err := open(ctx, path)
		if err != nil {
			return "", Wrong("check the path, and the permissions of the user who runs tierml", "%s cannot be read: %v", path, err)
		}
		defer file.Close()
		head := make([]byte, 512)
		n, err := io.ReadFull(file, head)
		if n == 0 {
			return "", Wrong("name a file that is not empty", "%s is empty or cannot be read: %v", path, err)
		}
		return filepath.Base(path) + " can be read", nil
	}}
}

// Fetchable checks whether an address returns something.
func Fetchable(name, url string, client *http.Client) Check {
	return Check{Name: name, Look: func(ctx context.Context) (string, error) {
		const advice = "write where machines can fetch it: https://HOST/PATH, s3://BUCKET/KEY or gs://BUCKET/KEY"
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", Wrong(advice, "%s is no address: %v", url, err)
		}
		request.Header.Set("Range", "bytes=0-0") // it may be large
		response, err := client.Do(request)
		if err != nil {
			return "", Wrong(advice, "%s cannot be fetched from here: %v", url, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
			return "", Wrong(advice, "%s: %s", url, response.Status)
		}
		return url + " can be fetched from here", nil
	}}
}

// Containers looks for a container runtime for a job's image on this host, where its machines are processes.
func Containers(runtime func(context.Context) (string, error)) Check {
	return Check{Name: "containers", Look: func(ctx context.Context) (string, error) {
		found, err := runtime(ctx)
		if err != nil {
			return "", Wrong("install Podman or Docker here, or leave image out", "%v", err)
		}
		return found + " works here", nil
	}}
}

// ContainersOn returns the check for a provider's machines, of which nothing is known before one has booted from its system. Known systems
// include Docker.
func ContainersOn(system string, known bool) Check {
	return Check{Name: "containers", Look: func(context.Context) (string, error) {
		if !known {
			return "", Warn("boot one from it and type docker ps; Amazon Linux 2023 and Debian 12 have neither", "whether %s has Docker or Podman cannot be seen from here", system)
		}
		return system + " has Docker", nil
	}}
}

// Store checks whether small objects can be written, read and removed at a place.
type Store struct {
	Write  func(ctx context.Context, name string, write func(io.Writer) error) error
	Open   func(ctx context.Context, name string) (io.ReadCloser, error)
	Remove func(ctx context.Context, name string) error
	Join   func(folder string, below ...string) string
}

// Check returns the check of a place.
func (s Store) Check(place, mark string) Check {
	return Check{Name: "checkpoints", Look: func(ctx context.Context) (string, error) {
		const advice = "look at the bucket's name and region, and let the role write, read and remove objects there"
		object := s.Join(place, "tierml-doctor-"+mark)
		text := "tierml doctor was here"
		if err := s.Write(ctx, object, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			return "", Wrong(advice, "%s cannot be written to: %v", place, err)
		}
		file, err := s.Open(ctx, object)
		if err != nil {
			return "", Wrong(advice, "what was written to %s cannot be read: %v", place, err)
		}
		read, err := io.ReadAll(io.LimitReader(file, 1<<10))
		if err := errors.Join(err, file.Close()); err != nil || string(read) != text {
			return "", Wrong(advice, "%s returns something other than what was written: %v", place, err)
		}
		if err := s.Remove(ctx, object); err != nil {
			return "", Warn(advice+"; remove "+object, "%s: objects cannot be removed, so that old checkpoints would stay: %v", place, err)
		}
		return place + ": objects can be written, read and removed", nil
	}}
}
