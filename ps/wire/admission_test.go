package wire

import (
	"container/list"
	"net"
	"testing"
)

// The oldest connection that has sent nothing makes room for a new one; active ones are never closed for others.
func TestCrowdOfConnections(t *testing.T) {
	var c admission
	enter := func() (*list.Element, net.Conn, net.Conn) {
		mine, other := net.Pipe()
		_ = other.Close()
		at, closed := c.admit(mine)
		return at, mine, closed
	}
	known, _, _ := enter()
	c.active(known)
	_, oldest, _ := enter()
	var rest []*list.Element
	for range maxConnections - 2 {
		at, _, closed := enter()
		if at == nil || closed != nil {
			t.Fatal("closed before there were too many")
		}
		rest = append(rest, at)
	}
	newest, _, closed := enter()
	if newest == nil || closed != oldest {
		t.Error("the oldest silent connection did not make room")
	}
	c.leave(known) // the closed one leaves, too, later
	c.count--
	for _, at := range append(rest, newest) {
		c.active(at)
	}
	for range maxConnections - c.count {
		at, _, _ := enter()
		c.active(at)
	}
	if at, mine, closed := enter(); at != nil || closed != mine {
		t.Error("a connection was closed that had shown a frame")
	}
}
