package sameuser_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/tierml/tierml/internal/sameuser"
	"github.com/tierml/tierml/internal/sameuser/sameusertest"
)

// Dialling a port of this host finds a process of the same user there, or none: not another user who has taken the port of a server that
// ended.
func TestAnotherUserListens(t *testing.T) {
	l := sameusertest.Listen(t, "127.0.0.1:0")
	heard := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		said, _ := io.ReadAll(conn)
		heard <- string(said)
	}()
	conn, err := sameuser.Dial(t.Context(), "tcp", l.Addr().String())
	if err == nil {
		_, _ = io.WriteString(conn, "a secret")
		_ = conn.Close()
		t.Error("connected")
	} else if !strings.Contains(err.Error(), "it is of user 65534") {
		t.Error(err)
	}
	if said := <-heard; said != "" {
		t.Errorf("it heard %q", said)
	}
}

// Own servers are reached, over both families, and servers that close or never accept a connection are
// distinguished.
func TestDialOwn(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("no %s on this host: %v", address, err)
			continue
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		to := l.Addr().String()
		if address == ":0" {
			to = "127.0.0.1:" + port // an IPv4 address of an IPv6 socket
		}
		conn, err := sameuser.Dial(t.Context(), "tcp", to)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
	if !sameuser.Supported {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errNow := errors.New("now")
	over := make(chan error)
	go func() { // without an Accept
		_, err := sameuser.Dial(ctx, "tcp", l.Addr().String())
		over <- err
	}()
	cancel(errNow)
	if err := <-over; err == nil {
		t.Error("connected to nobody")
	}
	go func() { // it is closed, unseen
		_, err := sameuser.Dial(t.Context(), "tcp", l.Addr().String())
		over <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = l.Close()
	if err := <-over; err != nil && !strings.Contains(err.Error(), "closed at once") && !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
