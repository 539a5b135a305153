package serve

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
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/confine"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/rundir"
	"github.com/tierml/tierml/jobmanager"
)

// With --isolate each group has its own job server, run by its own user, in a directory that is closed to others:
// whatever the server runs has only that user's rights. This process, as root, holds the tokens. It determines from a
// request's token which group's job server answers, and reads no group's files. Both meet at a socket that only root
// can reach.

// perGroup are the flags and settings that each group's job server gets. Others cannot be used with --isolate.
var perGroup = []string{"allow", "max-running", "max-queued", "max-upload", "job-memory", "keep-free", "keep-inputs", "over-budget"}

// ownFlags are the flags of the process in front.
var ownFlags = []string{cli.SetFlag, "isolate", "groups", "directory", "listen", "tls-cert", "tls-key", "plaintext"}

// processesPerGroup bounds the processes of a group, including threads.
const processesPerGroup = 16 << 10

// groupServer is a group's job server.
type groupServer struct {
	name, dir string
	user      int
	file      string // file of groups, with only this one
	door      *net.UnixListener
}

func serveGroups(ctx context.Context, o serverOptions, server *cobra.Command, out, errOut io.Writer) error {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		return cli.Usage(errors.New("--isolate needs root on Linux, which starts processes of other users"))
	}
	if err := o.door.Check("the job server"); err != nil {
		return cli.Usage(err)
	}
	args, err := argsOf(server)
	if err != nil {
		return cli.Usage(err)
	}
	if o.home, err = filepath.Abs(o.home); err != nil {
		return err
	}
	if err := os.MkdirAll(o.home, 0o711); err != nil {
		return err
	}
	release, err := rundir.HoldUntil(o.home)
	if err != nil {
		return fmt.Errorf("another job server uses the directory %s: end it, or name another --directory", o.home)
	}
	defer release()
	groups, err := openGroups(o)
	if err != nil {
		return cli.Usage(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = passable(self)
	}
	if err != nil {
		return cli.Usage(err)
	}
	ways, err := openWays(o.home)
	if err != nil {
		return err
	}
	defer ways.close()
	listener, err := o.door.Listen()
	if err != nil {
		return fmt.Errorf("serving the job server: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(errOut, nil))
	gate := access.NewGate(access.Random(), o.door.TLS(), time.Now, log) // no client has that token, which is for cookies
	rights, err := jobmanager.ReadGroups(o.groupFile)
	if err != nil {
		return cli.Usage(err)
	}
	grant(gate, rights)
	to := map[string]http.Handler{}
	var keeping sync.WaitGroup
	for _, g := range groups {
		path := ways.addressOf(g.name)
		if g.door, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
			stop()
			keeping.Wait()
			return fmt.Errorf("the way to group %s's job server: %w", g.name, err)
		}
		defer g.door.Close()
		to[g.name] = proxyTo(path)
		keeping.Go(func() { g.keep(ctx, self, args, errOut, log) })
	}
	fmt.Fprintf(out, "The job servers of %d groups and their dashboards are at %s://%s until Ctrl-C, which ends no job.\n", len(groups), o.door.scheme(), listener.Addr())
	err = serveUntil(ctx, access.Server(gate.Handler(byGroup(to)), log), listener)
	stop()
	keeping.Wait()
	return err
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

// argsOf returns the flags and settings that a group's job server gets.
func argsOf(server *cobra.Command) (args []string, err error) {
	pass := func(prefix string) func(f *pflag.Flag) {
		return func(f *pflag.Flag) {
			switch list, is := f.Value.(pflag.SliceValue); {
			case slices.Contains(ownFlags, f.Name):
			case !slices.Contains(perGroup, f.Name):
				err = fmt.Errorf("%s%s is for all groups together, and with --isolate each has its own job server: leave it out", prefix, f.Name)
			case is:
				for _, one := range list.GetSlice() {
					args = append(args, prefix+f.Name+"="+one)
				}
			default:
				args = append(args, prefix+f.Name+"="+f.Value.String())
			}
		}
	}
	server.Flags().Visit(pass("--"))
	cli.SettingsOf(server).Visit(pass("--" + cli.SetFlag + "="))
	return args, err
}

// plainGroup is a group's name that can be a folder's.
var plainGroup = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// openGroups creates each group's user and directory.
func openGroups(o serverOptions) (all []*groupServer, err error) {
	if o.groupFile == "" {
		return nil, errors.New("--isolate separates groups: add --groups FILE")
	}
	groups, err := jobmanager.ReadGroups(o.groupFile)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.groupFile)
	if err != nil {
		return nil, err
	}
	var file map[string]yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	root := filepath.Join(o.home, "groups")
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, err
	}
	for _, dir := range []string{o.home, root} { // can be traversed, not listed
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, err
		}
	}
	if err := passable(root); err != nil {
		return nil, err
	}
	groupOf, users := map[access.Sum]string{}, map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if !plainGroup().MatchString(name) {
			return nil, fmt.Errorf("%s: with --isolate a group has a folder named after it, and %q cannot be one", o.groupFile, name)
		}
		for _, sums := range groups[name].Tokens {
			for _, sum := range sums {
				if of, there := groupOf[sum]; there && of != name {
					return nil, fmt.Errorf("%s: groups %s and %s have a token in common, and with --isolate it leads to one only", o.groupFile, of, name)
				}
				groupOf[sum] = name
			}
		}
		g := &groupServer{name: name, dir: filepath.Join(root, name), file: filepath.Join(root, name+".yaml")}
		if err := g.make(users); err != nil {
			return nil, err
		}
		users[g.user] = name
		text, err := yaml.Marshal(map[string]yaml.Node{name: file[name]})
		if err == nil {
			err = os.WriteFile(g.file, text, 0o640)
		}
		if err == nil {
			err = os.Chown(g.file, 0, g.user)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
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

// byGroup forwards requests to the job server of their token's group.
func byGroup(to map[string]http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		groups := access.ClientOf(r.Context()).Groups(access.Watch) // exactly one: openGroups has checked
		if r.Body != nil && r.ContentLength != 0 {
			r.Body = &patient{r.Body, w}
		}
		to[strings.Join(groups, "")].ServeHTTP(w, r)
	})
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

// serveBehind serves one group's jobs, at the socket that serveGroups has opened, until standard input ends.
func serveBehind(ctx context.Context, manager *jobmanager.Manager, groups map[string]jobmanager.Group, log *slog.Logger) error {
	_ = syscall.Umask(0o077) // also for programs, which write to folders that all users share, such as /tmp
	door := os.NewFile(3, "door")
	listener, err := net.FileListener(door)
	if err := errors.Join(err, door.Close()); err != nil {
		return cli.Usage(fmt.Errorf("--behind is for --isolate alone: %w", err))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	gate := access.NewGate(access.Token{}, false, time.Now, log)
	grant(gate, groups)
	var keeping sync.WaitGroup
	keeping.Go(func() { manager.Run(ctx) })
	err = serveUntil(ctx, access.Server(gate.Behind(manager.Handler()), log), listener)
	stop()
	keeping.Wait()
	return err
}
