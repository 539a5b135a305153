package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tierml/tierml/internal/blob"
	"github.com/tierml/tierml/internal/clock"
	"github.com/tierml/tierml/internal/trust"
)

// secure gets this machine a certificate of the run and renews it, if the user data names an authority. Without one, other hosts must not
// reach the data plane.
func (n *node) secure(ctx context.Context) error {
	if n.user.Authority == "" {
		if n.cfg.Plaintext {
			return nil
		}
		plain, err := trust.Plain(n.listener, n.log)
		if err != nil {
			return fmt.Errorf("the data plane: %w", err)
		}
		n.listener = plain
		return nil
	}
	j := trust.Joining{
		Address: n.user.Controller, Dial: n.cfg.Dial, Authority: n.user.Authority, Token: n.user.Token,
		Machine: string(n.identity.Instance), KeyFile: n.cfg.KeyFile, Now: clock.Wall,
	}
	if j.Dial == nil {
		j.Dial = trust.Dial
	}
	if n.own == nil { // otherwise it is from an earlier life
		patience, cancel := clock.WithPatience(ctx, n.orphanAfter(), errOrphan) // as an orphan waits for its controller
		defer cancel()
		var err error
		if n.own, err = j.Insist(patience, n.log); err != nil {
			return err
		}
		n.log.Info("this machine has a certificate of the run")
	}
	if n.own.Granted() != nil && n.cfg.UseKeys != nil {
		n.cfg.UseKeys(n.keys)
	}
	n.tasks.Go(func() error {
		j.Keep(ctx, n.own, n.log)
		return nil
	})
	return nil
}

// dataTLS is for both ends of the data plane: machines talk to machines, and the controller reads the model.
func (n *node) dataTLS() *tls.Config {
	if n.own == nil {
		return nil
	}
	return n.own.Config(trust.Machine, trust.Controller)
}

func (n *node) controlCredentials() credentials.TransportCredentials {
	if n.own == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(n.own.Config(trust.Controller))
}

// token returns the proof, for a controller without TLS, that this machine was launched for it. With TLS the certificate is the proof, and
// the token is not sent again.
func (n *node) token() string {
	if n.own != nil {
		return ""
	}
	return n.user.Token
}

// address returns where other machines reach the data plane. A machine that listens on all addresses is reached at the source address of
// its route to the controller; finding it sends nothing. It is determined once: the controller's name may have no address later.
func (n *node) address() string {
	if n.reached != "" {
		return n.reached
	}
	own, ok := n.listener.Addr().(*net.TCPAddr)
	if !ok || !own.IP.IsUnspecified() {
		return n.listener.Addr().String()
	}
	way, err := net.Dial("udp", n.user.Controller)
	if err != nil {
		n.log.Error("no way to the controller", "error", err)
		return own.String()
	}
	defer way.Close()
	host, _, err := net.SplitHostPort(way.LocalAddr().String())
	if err != nil {
		return own.String()
	}
	n.reached = net.JoinHostPort(host, strconv.Itoa(own.Port))
	return n.reached
}

// keys are the newest credentials of the run for its store.
func (n *node) keys() (keys blob.Keys, err error) {
	if err = json.Unmarshal(n.own.Granted(), &keys); err != nil {
		return keys, fmt.Errorf("the run's credentials for its store: %w", err)
	}
	return keys, nil
}
