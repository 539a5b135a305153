package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tierml/tierml/bidding"
	"github.com/tierml/tierml/elasticity"
	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
)

// driver records requests, and answers at once.
type driver struct {
	asked   []string
	refusal error
}

func (d *driver) Scale(_ context.Context, want elasticity.ScaleWanted, wait bool, told func(elasticity.Scale, bool) error) error {
	what := fmt.Sprintf("%+d %+d %v %v %s", want.Workers, want.Servers, want.Reset, wait, want.By)
	if want.Pause || want.Resume {
		what = fmt.Sprintf("pause %v resume %v %v %s", want.Pause, want.Resume, wait, want.By)
	}
	d.asked = append(d.asked, what+want.Cancel)
	if d.refusal != nil {
		return d.refusal
	}
	now := elasticity.Scale{Workers: 4, Servers: 2, Want: bidding.Want{Machines: 6}, WantServers: 3}
	if err := told(now, false); err != nil || !wait {
		return err
	}
	now.Workers, now.Servers = 6, 3
	return told(now, true)
}

func (d *driver) Stop(_ context.Context, why string, now bool) {
	d.asked = append(d.asked, fmt.Sprintf("stop %s %v", why, now))
}

func serve(t *testing.T, d *driver) (directory string, client pb.ElasticClient, token string) {
	t.Helper()
	directory = t.TempDir()
	s, err := Serve(directory, d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	text, err := os.ReadFile(filepath.Join(directory, File))
	if err != nil {
		t.Fatal(err)
	}
	var at door
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient("passthrough:///"+at.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return directory, pb.NewElasticClient(connection), at.Token
}

// all reads a call to its end.
func all(stream grpc.ServerStreamingClient[pb.Standing], err error) (answers []*pb.Standing, _ error) {
	for err == nil {
		var s *pb.Standing
		if s, err = stream.Recv(); err == nil {
			answers = append(answers, s)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return answers, err
}

func TestTheFourCalls(t *testing.T) {
	d := &driver{}
	_, client, token := serve(t, d)
	ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, "Bearer "+token)
	two := &pb.Machines{Count: 2, By: "a scheduler"}
	for _, call := range []func(context.Context, *pb.Machines, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.Standing], error){
		client.AddWorkers, client.RemoveWorkers, client.AddServers, client.RemoveServers,
	} {
		answers, err := all(call(ctx, two))
		if err != nil || len(answers) != 1 || answers[0].Reached || answers[0].WantedMachines != 6 {
			t.Errorf("%v, %v", answers, err)
		}
	}
	answers, err := all(client.Scale(ctx, &pb.Change{Workers: 4, Servers: -1, Wait: true}))
	if err != nil || len(answers) != 2 || !answers[1].Reached || answers[1].Workers != 6 || answers[1].Servers != 3 {
		t.Errorf("%v, %v", answers, err)
	}
	want := []string{"+2 +0 false false a scheduler", "-2 +0 false false a scheduler", "+0 +2 false false a scheduler",
		"+0 -2 false false a scheduler", "+4 -1 false true "}
	if !slices.Equal(d.asked, want) {
		t.Errorf("asked for %q, want %q", d.asked, want)
	}
}

func TestPauseAndResumeCalls(t *testing.T) {
	d := &driver{}
	_, client, token := serve(t, d)
	ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, "Bearer "+token)
	for _, call := range []func(context.Context, *pb.Wish, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.Standing], error){client.Pause, client.Resume} {
		if answers, err := all(call(ctx, &pb.Wish{Wait: true, By: "a scheduler"})); err != nil || len(answers) != 2 || !answers[1].Reached {
			t.Errorf("%v, %v", answers, err)
		}
	}
	if want := []string{"pause true resume false true a scheduler", "pause false resume true true a scheduler"}; !slices.Equal(d.asked, want) {
		t.Errorf("asked for %q, want %q", d.asked, want)
	}
	if _, err := all(client.Pause(t.Context(), &pb.Wish{})); status.Code(err) != codes.PermissionDenied {
		t.Errorf("no token: %v", err)
	}
}

// A client without the run's token changes nothing, and an absurd number is refused.
func TestWhoMayScale(t *testing.T) {
	d := &driver{}
	directory, client, token := serve(t, d)
	for what, ctx := range map[string]context.Context{
		"no token":      t.Context(),
		"another token": metadata.AppendToOutgoingContext(t.Context(), tokenKey, "Bearer x"),
		"two tokens":    metadata.AppendToOutgoingContext(t.Context(), tokenKey, "Bearer "+token, tokenKey, "Bearer x"),
	} {
		if _, err := all(client.AddWorkers(ctx, &pb.Machines{Count: 1})); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := client.Stop(t.Context(), &pb.End{Now: true}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("no token: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, "Bearer "+token)
	for _, n := range []uint32{1_000_001, 1<<31 + 1, 1<<32 - 1} {
		if _, err := all(client.AddWorkers(ctx, &pb.Machines{Count: n})); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%d machines: %v", n, err)
		}
	}
	if d.asked != nil {
		t.Errorf("asked for %q", d.asked)
	}
	info, err := os.Stat(filepath.Join(directory, File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", File, info.Mode(), err)
	}
}

func TestAsk(t *testing.T) {
	d := &driver{}
	directory, _, _ := serve(t, d)
	reached := 0
	err := Ask(t.Context(), directory, &pb.Change{Servers: 1, Wait: true}, func(s *pb.Standing) {
		if s.Reached {
			reached++
		}
	})
	if err != nil || reached != 1 {
		t.Errorf("%v, reached %d times", err, reached)
	}
	d.refusal = errors.New("13 servers are more than the 12 partitions")
	if err := Ask(t.Context(), directory, &pb.Change{Servers: 10}, func(*pb.Standing) {}); err == nil || err.Error() != d.refusal.Error() {
		t.Errorf("refused with %v", err)
	}
	if err := Ask(t.Context(), t.TempDir(), &pb.Change{}, nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("no run: %v", err)
	}
}

func TestStop(t *testing.T) {
	d := &driver{}
	directory, _, _ := serve(t, d)
	for _, now := range []bool{false, true} {
		if err := Stop(t.Context(), directory, "a person", now); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"stop a person false", "stop a person true"}; !slices.Equal(d.asked, want) {
		t.Errorf("asked for %q, want %q", d.asked, want)
	}
	if err := Cancel(t.Context(), directory, "a person", "task-3"); err != nil || !strings.Contains(d.asked[2], "task-3") {
		t.Errorf("asked for %q, %v", d.asked, err)
	}
	d.refusal = errors.New("task-3 is done")
	if err := Cancel(t.Context(), directory, "a person", "task-3"); err == nil || err.Error() != "task-3 is done" {
		t.Error(err)
	}
	if err := Stop(t.Context(), t.TempDir(), "", false); !errors.Is(err, ErrNotRunning) {
		t.Errorf("no run: %v", err)
	}
}

// A server that is closed removes its file.
func TestClosed(t *testing.T) {
	directory := t.TempDir()
	s, err := Serve(directory, &driver{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(directory, File)); err != nil {
		t.Errorf("it serves, and its file is not there: %v", err)
	}
	s.Close()
	if _, err := os.Stat(filepath.Join(directory, File)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is closed, and its file is there: %v", err)
	}
	if err := Ask(t.Context(), directory, &pb.Change{}, nil); err == nil || !strings.Contains(err.Error(), "is not running") {
		t.Error(err)
	}
}

// Garbage and oversized messages end only their own connection.
func TestGarbageAtTheScalingCalls(t *testing.T) {
	d := &driver{}
	directory, client, token := serve(t, d)
	text, err := os.ReadFile(filepath.Join(directory, File))
	if err != nil {
		t.Fatal(err)
	}
	var at door
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	for what, bytes := range map[string]string{
		"garbage": strings.Repeat("\xa5", 1<<16), "TLS": "\x16\x03\x01\xff\xff" + strings.Repeat("\x00", 1<<16),
		"an oversized frame": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\x00\x00\x00\x00\x00",
	} {
		conn, err := net.Dial("tcp", at.Address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(bytes)) // it may be cut off
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, err = io.Copy(io.Discard, conn)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			t.Errorf("%s: the connection stays", what)
		}
		_ = conn.Close()
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), tokenKey, "Bearer "+token)
	if _, err := all(client.Scale(ctx, &pb.Change{By: strings.Repeat("x", 5<<20)})); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message of 5 MiB: %v", err)
	}
	if _, err := all(client.AddWorkers(ctx, &pb.Machines{Count: 1})); err != nil || len(d.asked) != 1 {
		t.Errorf("afterwards: %v, asked for %q", err, d.asked)
	}
}
