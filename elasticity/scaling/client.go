package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/tierml/tierml/elasticity/scaling/scalingpb"
	"github.com/tierml/tierml/internal/sameuser"
)

// ErrNotRunning means that no process answers for the run.
var ErrNotRunning = errors.New("the run is not running: no controller answers for it")

// Ask changes the numbers of the run in a directory, and calls told with each answer: the accepted numbers and, with
// Wait, that they are reached.
func Ask(ctx context.Context, directory string, change *pb.Change, told func(*pb.Standing)) error {
	ctx, client, leave, err := reach(ctx, directory)
	if err != nil {
		return err
	}
	defer leave()
	answers, err := client.Scale(ctx, change)
	if err != nil {
		return explain(directory, err)
	}
	for {
		standing, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explain(directory, err)
		}
		told(standing)
	}
}

// Stop requests the end of the run in a directory, graceful or immediate, and names the requester. When it returns, the run has received
// the request; it has ended when its controller exits.
func Stop(ctx context.Context, directory, by string, now bool) error {
	ctx, client, leave, err := reach(ctx, directory)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := client.Stop(ctx, &pb.End{Now: now, By: by}); err != nil {
		return explain(directory, err)
	}
	return nil
}

// Cancel asks the run in a directory to end one task of an array permanently, or shared hosts to let one go.
func Cancel(ctx context.Context, directory, by, program string) error {
	ctx, client, leave, err := reach(ctx, directory)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := client.Stop(ctx, &pb.End{By: by, Program: program}); err != nil {
		return explain(directory, err)
	}
	return nil
}

// reach connects to the run's controller; the returned context carries the run's token.
func reach(ctx context.Context, directory string) (_ context.Context, _ pb.ElasticClient, leave func(), err error) {
	text, err := os.ReadFile(filepath.Join(directory, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, fmt.Errorf("%s: %w", directory, ErrNotRunning)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("finding the run's address: %w", err)
	}
	var d door
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, nil, nil, fmt.Errorf("finding the run's address: %s: %w", File, err)
	}
	connection, err := grpc.NewClient("passthrough:///"+d.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return sameuser.Dial(ctx, "tcp", address) // the run may have ended and another process may use its port
		}))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reaching the run: %w", err)
	}
	leave = func() { _ = connection.Close() } // it has sent everything
	return metadata.AppendToOutgoingContext(ctx, tokenKey, "Bearer "+d.Token), pb.NewElasticClient(connection), leave, nil
}

func explain(directory string, err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Errorf("%s: %w", directory, ErrNotRunning)
	case codes.FailedPrecondition, codes.InvalidArgument, codes.PermissionDenied:
		return errors.New(s.Message())
	case codes.Canceled:
		return context.Canceled
	}
	return fmt.Errorf("asking the run: %w", err)
}
