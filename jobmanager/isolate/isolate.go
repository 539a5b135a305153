// Package isolate runs a job server for each group of users, by the group's own system user, in a directory that is closed to others: whatever a
// server runs has only that user's rights. The process in front, as root, holds the tokens. It determines from a request's token which group's job
// server answers, and reads no group's files. Both meet at a socket that only root can reach. It knows nothing about jobs.
package isolate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/jobmanager"
)

// Servers are the job servers of all groups.
type Servers struct {
	Groups map[string]jobmanager.Group // with their tokens
	home   string
	self   string // this program
	each   []*groupServer
	ways   ways
}

// Open creates each group's user and directory below a directory, by the file of groups. Its errors are the user's to correct.
func Open(home, file string) (*Servers, error) {
	if file == "" {
		return nil, errors.New("--isolate separates groups: add --groups FILE")
	}
	groups, err := jobmanager.ReadGroups(file)
	if err != nil {
		return nil, err
	}
	s := &Servers{Groups: groups, home: home}
	if err := s.make(file); err != nil {
		return nil, err
	}
	if s.self, err = os.Executable(); err == nil {
		err = passable(s.self)
	}
	return s, err
}

// Listen opens the groups' sockets; Close closes them.
func (s *Servers) Listen() (err error) {
	if s.ways, err = openWays(s.home); err != nil {
		return err
	}
	for _, g := range s.each {
		if g.door, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.ways.addressOf(g.name), Net: "unix"}); err != nil {
			s.Close()
			return fmt.Errorf("the way to group %s's job server: %w", g.name, err)
		}
	}
	return nil
}

// Close ends what Listen began.
func (s *Servers) Close() {
	for _, g := range s.each {
		if g.door != nil {
			_ = g.door.Close()
		}
	}
	s.ways.close()
}

// Run keeps the job servers running, with these arguments, until the context ends. Runs outlive them.
func (s *Servers) Run(ctx context.Context, args []string, errOut io.Writer, log *slog.Logger) {
	var keeping sync.WaitGroup
	for _, g := range s.each {
		keeping.Go(func() { g.keep(ctx, s.self, args, errOut, log) })
	}
	keeping.Wait()
}

// Handler forwards requests, which a gate has let in, to the job server of their token's group.
func (s *Servers) Handler() http.Handler {
	to := map[string]http.Handler{}
	for _, g := range s.each {
		to[g.name] = proxyTo(s.ways.addressOf(g.name))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		groups := access.ClientOf(r.Context()).Groups(access.Watch) // exactly one: make has checked
		if r.Body != nil && r.ContentLength != 0 {
			r.Body = &patient{r.Body, w}
		}
		to[strings.Join(groups, "")].ServeHTTP(w, r)
	})
}

// Behind returns the listener that a group's job server has from the process in front.
func Behind() (net.Listener, error) {
	door := os.NewFile(3, "door")
	listener, err := net.FileListener(door)
	if err := errors.Join(err, door.Close()); err != nil {
		return nil, fmt.Errorf("--behind is for --isolate alone: %w", err)
	}
	return listener, nil
}

// processesPerGroup bounds the processes of a group, including threads.
const processesPerGroup = 16 << 10

// groupServer is a group's job server.
type groupServer struct {
	name, dir string
	user      int
	file      string // file of groups, with only this one
	door      *net.UnixListener
}

// waysDir holds the sockets of the groups' job servers. Only root can enter it. A start removes what a killed process left.
const waysDir = "doors"

// ways is that folder, open: this keeps the sockets' addresses short, of which the kernel accepts 107 bytes.
type ways struct{ *os.File }

func openWays(home string) (ways, error) {
	dir := filepath.Join(home, waysDir)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return ways{}, fmt.Errorf("making a folder for the ways to groups' job servers: %w", err)
	}
	opened, err := os.Open(dir)
	return ways{opened}, err
}

// addressOf returns the address of a group's socket.
func (w ways) addressOf(group string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", w.Fd(), group)
}

func (w ways) close() {
	_ = os.RemoveAll(w.Name())
	_ = w.Close()
}

// plainGroup is a group's name that can be a folder's.
var plainGroup = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// make creates each group's user and directory.
func (s *Servers) make(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var nodes map[string]yaml.Node
	if err := yaml.Unmarshal(text, &nodes); err != nil {
		return err
	}
	root := filepath.Join(s.home, "groups")
	if err := os.MkdirAll(root, 0o711); err != nil {
		return err
	}
	for _, dir := range []string{s.home, root} { // can be traversed, not listed
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	if err := passable(root); err != nil {
		return err
	}
	groupOf, users := map[access.Sum]string{}, map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Groups)) {
		if !plainGroup().MatchString(name) {
			return fmt.Errorf("%s: with --isolate a group has a folder named after it, and %q cannot be one", file, name)
		}
		for _, sums := range s.Groups[name].Tokens {
			for _, sum := range sums {
				if of, there := groupOf[sum]; there && of != name {
					return fmt.Errorf("%s: groups %s and %s have a token in common, and with --isolate it leads to one only", file, of, name)
				}
				groupOf[sum] = name
			}
		}
		g := &groupServer{name: name, dir: filepath.Join(root, name), file: filepath.Join(root, name+".yaml")}
		if err := g.make(users); err != nil {
			return err
		}
		users[g.user] = name
		text, err := yaml.Marshal(map[string]yaml.Node{name: nodes[name]})
		if err == nil {
			err = os.WriteFile(g.file, text, 0o640)
		}
		if err == nil {
			err = os.Chown(g.file, 0, g.user)
		}
		if err != nil {
			return err
		}
		s.each = append(s.each, g)
	}
	return nil
}

// Users of groups have ids in an otherwise unused range.
const firstGroupUser, groupUsers = 1_000_000_000, 500_000_000

// make creates a directory for a group. It always belongs to the group's user.
func (g *groupServer) make(taken map[int]string) error {
	if info, err := os.Lstat(g.dir); err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !info.IsDir() || stat.Uid < firstGroupUser || taken[int(stat.Uid)] != "" {
			return fmt.Errorf("%s is not the folder of a user of that group alone", g.dir)
		}
		g.user = int(stat.Uid)
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sum := sha256.Sum256([]byte(g.dir))
	g.user = firstGroupUser + int(binary.BigEndian.Uint32(sum[:])%groupUsers)
	for taken[g.user] != "" {
		g.user++
	}
	// The owner is set last: an incomplete folder belongs to root, and is refused.
	temporary := filepath.Join(g.dir, "tmp")
	return errors.Join(os.Mkdir(g.dir, 0o700), os.Mkdir(temporary, 0o700), os.Chown(temporary, g.user, g.user), os.Chown(g.dir, g.user, g.user))
}

// passable returns why other users cannot reach a file or folder.
func passable(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("--isolate: users of groups cannot traverse %s: chmod o+x it, or choose another place", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// keep keeps a group's job server running until the context ends. Runs outlive it.
func (g *groupServer) keep(ctx context.Context, self string, args []string, errOut io.Writer, log *slog.Logger) {
	for n := 1; ctx.Err() == nil; n++ {
		if n > 1 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
		if err := g.serve(ctx, n, self, args, errOut); ctx.Err() == nil {
			log.Error("a group's job server has ended, and is started again", "group", g.name, "error", err)
		}
	}
}

// serve runs it once.
func (g *groupServer) serve(ctx context.Context, n int, self string, args []string, errOut io.Writer) error {
	door, err := g.door.File()
	if err != nil {
		return err
	}
	defer door.Close() // the process has its own copy
	cmd := exec.Command(self, append([]string{"server", "--behind", "--directory", g.dir, "--groups", g.file}, args...)...)
	cmd.Dir, cmd.ExtraFiles = g.dir, []*os.File{door}
	cmd.Env = []string{"HOME=" + g.dir, "TMPDIR=" + filepath.Join(g.dir, "tmp"), "USER=" + g.name} // nothing of root's, such as credentials
	for _, name := range []string{"PATH", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stderr = struct{ io.Writer }{errOut} // through a pipe: root's file does not belong to the group
	hold, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if _, err := confine.Start(cmd, fmt.Sprintf("group-%s-%d", g.name, n), confine.Limits{
		Memory: confine.HostMemory(), VCPU: runtime.NumCPU(), Processes: processesPerGroup, User: g.user, Own: true}); err != nil {
		return errors.Join(err, hold.Close())
	}
	cmd.WaitDelay = time.Second                                 // runs may hold the pipe
	defer context.AfterFunc(ctx, func() { _ = hold.Close() })() // it ends with its input
	return cmd.Wait()
}

// proxyTo forwards requests to a group's job server.
func proxyTo(path string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "group", r.In.Host
			access.Forward(r.Out, r.In)
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, `{"error": "the group's job server does not answer; try again"}`, http.StatusBadGateway)
		},
	}
}

// patient is the body of a request, which may take as long as data arrives.
type patient struct {
	io.ReadCloser
	w http.ResponseWriter
}

func (p *patient) Read(b []byte) (int, error) {
	access.Slowly(p.w)
	n, err := p.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) {
		access.AllRead(p.w)
	}
	return n, err
}
