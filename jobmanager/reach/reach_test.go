package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/sameuser/sameusertest"
	"github.com/tierml/tierml/jobmanager/call"
	"github.com/tierml/tierml/provisioner"
)

// TestMain plays other programs if the first argument says so: the command of a tunnel, and that of a token.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], "play-") {
		os.Exit(play(os.Args[1], os.Args[2:]))
	}
	os.Exit(m.Run())
}

func play(part string, args []string) int {
	switch part {
	case "play-tunnel": // FOLDER LOCAL PORT: leaves its process number in the folder
		name := filepath.Join(args[0], strconv.Itoa(os.Getpid()))
		if err := os.WriteFile(name, []byte(strconv.Itoa(syscall.Getpgrp())), 0o600); err != nil {
			return 1
		}
		return forward(args[1], args[2])
	case "play-fail":
		fmt.Println("An error occurred (TargetNotConnected) when calling the StartSession operation: " + args[0] + " is not connected.")
		return 254
	case "play-token": // as Session Manager shows it, and stays
		fmt.Printf("\nStarting session with SessionId: ann-0123\r\n%s\r\n", args[0])
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	return 1
}

func forward(local, port string) int {
	listener, err := net.Listen("tcp", "127.0.0.1:"+local)
	if err != nil {
		return 1
	}
	for {
		near, err := listener.Accept()
		if err != nil {
			return 1
		}
		go func() {
			defer near.Close()
			far, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				return
			}
			defer far.Close()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			_, _ = io.Copy(near, far)
		}()
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// site is a job server behind its gate, and the commands that reach it.
type site struct {
	token   access.Token
	place   Place
	folder  string // of the tunnels' process numbers
	shelf   Registry
	mu      sync.Mutex
	lines   []string
	changed chan struct{} // has room for the message that there are more
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{token: access.Random(), folder: t.TempDir(), shelf: NewRegistry(filepath.Join(t.TempDir(), "controllers")), changed: make(chan struct{}, 1)}
	gate := access.NewGate(s.token, false, time.Now, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") })))
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	s.place = Place{Cloud: "ec2", Region: "us-west-2", Cluster: "prod", Instance: "i-0a", Port: port,
		Tunnel: self(t) + " play-tunnel " + s.folder + " {local} {port}",
		Token:  self(t) + " play-token " + strings.TrimPrefix(s.token.Bearer(), "Bearer ")}
	return s
}

func (s *site) note(line string) {
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *site) noted(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(l string) bool { return strings.Contains(l, words) })
}

// pids returns the processes of the tunnels so far.
func (s *site) pids(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if group, err := os.ReadFile(filepath.Join(s.folder, e.Name())); err != nil || len(group) > 0 && string(group) != e.Name() { // empty: being written
			t.Errorf("the tunnel is in group %s, which a Ctrl-C may be for", group)
		}
		pids = append(pids, pid)
	}
	return pids
}

// The tunnel is opened, the token fetched once and kept for its owner only; a tunnel that breaks is reopened at the same address; nothing
// is left of it when it is closed.
func TestConnect(t *testing.T) {
	s := newSite(t)
	way, err := s.shelf.Connect(t.Context(), s.place, access.Token{}, s.note)
	if err != nil {
		t.Fatal(err)
	}
	if way.Token != s.token || !s.noted("Getting the token") {
		t.Errorf("the token is not the job server's; %v", s.lines)
	}
	if info, err := os.Stat(s.shelf.TokenFile(s.place)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	client, err := call.New(way.Address, way.Token, "")
	if err != nil {
		t.Fatal(err)
	}
	client.Own(way.Close)
	if jobs, err := client.Jobs(t.Context()); err != nil || len(jobs) > 0 {
		t.Errorf("%v, %v", jobs, err)
	}
	first := s.pids(t)
	if len(first) != 1 {
		t.Fatalf("%d tunnels", len(first))
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for !s.noted("The tunnel is open again") {
		select {
		case <-s.changed:
		case <-time.After(2 * time.Minute):
			t.Fatalf("it stays broken: %v", s.lines)
		}
	}
	if _, err := client.Jobs(t.Context()); err != nil {
		t.Errorf("by the tunnel that was opened again: %v", err)
	}
	client.Close()
	for _, pid := range s.pids(t) {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d of a tunnel is left", pid)
		}
	}
}

// A stored token is not requested again, unless the job server now has another one; a token that the user gives is used as it is.
func TestWhichToken(t *testing.T) {
	s := newSite(t)
	connect := func(p Place, own access.Token) access.Token {
		t.Helper()
		way, err := s.shelf.Connect(t.Context(), p, own, s.note)
		if err != nil {
			t.Fatal(err)
		}
		way.Close()
		return way.Token
	}
	if err := s.shelf.KeepToken(s.place, access.Random()); err != nil { // that of an earlier job server
		t.Fatal(err)
	}
	if connect(s.place, access.Token{}) != s.token {
		t.Error("an old token stays")
	}
	unable := s.place
	unable.Token = self(t) + " play-fail x"
	if connect(unable, access.Token{}) != s.token {
		t.Error("a token that is kept is asked for again")
	}
	if own := access.Random(); connect(s.place, own) != own {
		t.Error("the user's own token is not taken")
	}
	if err := s.shelf.Forget(s.place); err != nil {
		t.Fatal(err)
	}
	if _, err := s.shelf.Connect(t.Context(), unable, access.Token{}, s.note); err == nil || !strings.Contains(err.Error(), "does not print one") {
		t.Error(err)
	}
}

func TestMissingToolsAreReported(t *testing.T) {
	place := Place{Cloud: "ec2", Region: "us-west-2", Cluster: "prod", Instance: "i-0a"}
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	tool := func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	refuses := func(p Place, words string) {
		t.Helper()
		if _, err := OpenTunnel(t.Context(), p, func(string) {}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %s", err, words)
		}
	}
	refuses(place, "aws is not here; install the AWS command line")
	tool("aws", "echo 'TargetNotConnected: i-0a is not connected.'; exit 254")
	refuses(place, "install Session Manager's plugin")
	tool("session-manager-plugin", "")
	refuses(place, "TargetNotConnected: i-0a is not connected.\nsee whether it runs: aws ec2 describe-instances --region us-west-2 --instance-ids i-0a")
	refuses(Place{Cloud: "gce", Region: "us-central1", Project: "p", Zone: "us-central1-a", Cluster: "prod", Instance: "controller-of-prod"}, "gcloud is not here")
	own := place
	own.Tunnel = "somewhat {local}"
	refuses(own, "somewhat is not here; install it, or write another command in ec2.controller of the job file")
}

// A user who does not want to wait leaves, and the command ends.
func TestLeaving(t *testing.T) {
	s := newSite(t)
	p := s.place
	p.Port = 1 // nobody listens there
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(s.pids(t)) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := OpenTunnel(ctx, p, s.note); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, pid := range s.pids(t) {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d of a tunnel is left", pid)
		}
	}
}

func TestCommands(t *testing.T) {
	aws := Place{Cloud: "ec2", Region: "us-west-2", Cluster: "prod", Instance: "i-0a"}
	google := Place{Cloud: "gce", Region: "us-central1", Project: "my-project", Zone: "us-central1-a", Cluster: "prod", Instance: "controller-of-prod", Port: 8000}
	own := Place{Cloud: "ec2", Tunnel: "ssh -L {local}:localhost:{port} ann@controller"}
	for _, c := range []struct {
		got  []string
		want string
	}{
		{aws.TunnelCommand(4000), "aws|ssm|start-session|--region|us-west-2|--target|i-0a|--document-name|AWS-StartPortForwardingSession|--parameters|portNumber=7071,localPortNumber=4000"},
		{aws.TokenCommand(), `aws|ssm|start-session|--region|us-west-2|--target|i-0a|--document-name|tierml-token-prod`},
		{google.TunnelCommand(4000), "gcloud|compute|ssh|controller-of-prod|--project|my-project|--zone|us-central1-a|--tunnel-through-iap|--quiet|--|-N|-o|ExitOnForwardFailure=yes|-o|ServerAliveInterval=15|-L|127.0.0.1:4000:localhost:8000"},
		{google.TokenCommand(), "gcloud|compute|ssh|controller-of-prod|--project|my-project|--zone|us-central1-a|--tunnel-through-iap|--quiet|--command|sudo cat /var/lib/tierml/token"},
		{own.TunnelCommand(4000), "ssh|-L|4000:localhost:7071|ann@controller"},
		{own.TokenCommand(), ""},
	} {
		if got := strings.Join(c.got, "|"); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	for _, c := range []struct {
		place Place
		want  bool
	}{
		{aws, true}, {google, true}, {own, true}, {Place{Cloud: "ec2"}, false}, {Place{Cloud: "gce", Instance: "x"}, false},
		{Place{Cloud: "ec2", Tunnel: "t {local} {instance}"}, false}, {Place{Cloud: "gce", URL: "https://x"}, true},
	} {
		if c.place.Complete() != c.want {
			t.Errorf("%+v", c.place)
		}
	}
}

// A job server is found by the run's name and by the job's, the newest job server first.
func TestRegistryFindsServers(t *testing.T) {
	shelf := NewRegistry(filepath.Join(t.TempDir(), "controllers"))
	if all, err := shelf.Known(); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	a := Place{Cloud: "ec2", Region: "us-west-2", Cluster: "prod", Instance: "i-0a"}
	b := Place{Cloud: "gce", Region: "us-central1", Project: "my-project", Cluster: "lab", Instance: "c"}
	for _, k := range []struct {
		p   Place
		run string
	}{{a, "ratings-1"}, {b, "words-1"}, {a, "ratings-2"}, {a, ""}} {
		if err := shelf.Keep(k.p, k.run); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(shelf.dir, a.Name(), placeFile), old, old); err != nil {
		t.Fatal(err)
	}
	for meant, want := range map[string]Place{"ratings-1": a, "ratings": a, "words": b, "ratings-3": {}, "": {}, "rat": {}} {
		got, found, err := shelf.FindRun(meant)
		if err != nil || got != want || found != (want != Place{}) {
			t.Errorf("%s: %v, %v, %v", meant, got, found, err)
		}
	}
	if all, err := shelf.Known(); err != nil || len(all) != 2 || all[0].Place != b {
		t.Errorf("%v, %v", all, err)
	}
	for name, want := range map[string]Place{"prod": a, "lab": b, "gce-my-project-us-central1-lab": b} {
		if got, err := shelf.FindPlace(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := shelf.FindPlace("other"); err == nil || !strings.Contains(err.Error(), "known are gce-my-project-us-central1-lab, ec2-us-west-2-prod") {
		t.Error(err)
	}
}

func TestWhereAJobRuns(t *testing.T) {
	at := func(listen string, k config.Controller) *config.Installation {
		return &config.Installation{Block: "ec2", Listen: listen, Controller: k}
	}
	for name, c := range map[string]struct {
		at   *config.Installation
		on   bool
		here bool
	}{
		"machines of this host":           {nil, false, true},
		"a real cloud, from elsewhere":    {at("", config.Controller{}), false, false},
		"on the job server":               {at("", config.Controller{Instance: "i-0a"}), true, true},
		"this host is the job server":     {at("10.0.0.5:0", config.Controller{}), false, true},
		"the file names the job server":   {at("10.0.0.5:0", config.Controller{Instance: "i-0a"}), false, false},
		"what one would be made of, only": {at("", config.Controller{Role: "r", Type: "t3.small", Port: 7071}), false, false},
	} {
		if IsHere(c.at, c.on) != c.here {
			t.Errorf("%s: here %v", name, !c.here)
		}
	}
}

func TestChoose(t *testing.T) {
	p := Place{Cloud: "gce", Region: "us-central1", Project: "my-project", Cluster: "prod"}
	c := func(id, state string) provisioner.Controller {
		return provisioner.Controller{ID: id, Zone: "us-central1-b", State: state}
	}
	got, err := Choose(p, []provisioner.Controller{c("a", "terminated"), c("b", "running")}, "job.yaml")
	if err != nil || got.Instance != "b" || got.Zone != "us-central1-b" {
		t.Errorf("%+v, %v", got, err)
	}
	named := p
	named.Instance = "b"
	if got, err := Choose(named, []provisioner.Controller{c("a", "running"), c("b", "running")}, "job.yaml"); err != nil || got.Instance != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	for words, found := range map[string][]provisioner.Controller{
		"tierml server start job.yaml": nil,
		"several job servers: a, b; name one in the job file, below gce: controller: {instance: a}": {c("a", "running"), c("b", "staging")},
		"does not run: a is terminated\nsee whether it runs: gcloud compute instances describe a":   {c("a", "terminated")},
	} {
		if _, err := Choose(p, found, "job.yaml"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %s", err, words)
		}
	}
}

func TestWhichServerIsMeant(t *testing.T) {
	found := []provisioner.Controller{{ID: "i-1", Owner: "ann"}, {ID: "i-2", Owner: "bob"}, {ID: "i-3"}}
	for want, c := range map[string]struct {
		at    config.Installation
		known []Known
	}{
		"":            {at: config.Installation{}},
		"i-1":         {at: config.Installation{Owner: "ann"}},
		"i-1 i-2 i-3": {at: config.Installation{ClusterNamed: true, Owner: "carol"}},
		"i-3":         {at: config.Installation{Controller: config.Controller{Instance: "i-3"}}},
		"i-2":         {known: []Known{{Place: Place{Cloud: "ec2", Instance: "i-2"}}, {Place: Place{Cloud: "gce", Instance: "i-3"}}}},
	} {
		c.at.Block = "ec2"
		meant, others := Meant(&c.at, found, c.known)
		var ids []string
		for _, m := range meant {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want || len(meant)+len(others) != len(found) {
			t.Errorf("%q is meant, and %d others; want %q", got, len(others), want)
		}
	}
}

// Before the tunnel's command listens, another user of this host may take its port: that user is no job server, and does not get the token.
func TestAnotherUserIsNoTunnel(t *testing.T) {
	l := sameusertest.Listen(t, "127.0.0.1:0")
	asked := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { close(asked); w.WriteHeader(http.StatusOK) })}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	defer func() { _ = server.Close(); <-served }()
	tunnel := &Tunnel{local: l.Addr().(*net.TCPAddr).Port, http: tunnelClient()}
	if tunnel.answers(t.Context()) {
		t.Error("it was taken for the job server")
	}
	way := tunnel.way()
	way.Token = access.Random()
	if refused(t.Context(), way) {
		t.Error("he was asked about the token")
	}
	select {
	case <-asked:
		t.Error("he was asked")
	default:
	}
}
