package sameuser

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// Supported reports whether this system knows the owner of a connection.
const Supported = true

// The kernel's tables of TCP sockets. A client may have used an IPv6 socket for an IPv4 address.
var tables = []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"}

// tries is how often the tables are read: a socket can be missed while others come and go.
const tries = 3

var errNoSocket = errors.New("no open socket of this host is its other end")

// owner finds the socket that is bound to local and connected to remote. Reading the tables takes time for every socket of the host, so
// they are only read if the kernel does not answer a direct query.
func owner(local, remote netip.AddrPort) (s socket, err error) {
	if s, err = ownerByDiag(local, remote); !errors.Is(err, errNoDiag) {
		return s, err
	}
	return ownerByTable(local, remote)
}

func ownerByTable(local, remote netip.AddrPort) (s socket, err error) {
	for try := range tries {
		if try > 0 {
			time.Sleep(time.Millisecond)
		}
		for _, table := range tables {
			s, err = ownerIn(table, local, remote)
			if !errors.Is(err, errNoSocket) && !errors.Is(err, os.ErrNotExist) { // without IPv6 there is no tcp6
				return s, err
			}
		}
	}
	return socket{}, errNoSocket
}

func ownerIn(table string, local, remote netip.AddrPort) (socket, error) {
	file, err := os.Open(table)
	if err != nil {
		return socket{}, fmt.Errorf("reading the kernel's sockets: %w", err)
	}
	defer file.Close()
	return find(file, local, remote)
}

// The columns of a table: "sl local remote st tx:rx tr:when retrnsmt uid timeout inode ...".
const (
	columnLocal  = 1
	columnRemote = 2
	columnUID    = 7
	columnInode  = 9
)

// find reads a table. A socket without an inode no longer belongs to any process; the kernel gives it to root.
func find(table io.Reader, local, remote netip.AddrPort) (socket, error) {
	local, remote = unmap(local), unmap(remote)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) <= columnInode || f[columnInode] == "0" {
			continue
		}
		if at, ok := parse(f[columnLocal]); !ok || at != local {
			continue
		}
		if at, ok := parse(f[columnRemote]); !ok || at != remote {
			continue
		}
		uid, err := strconv.Atoi(f[columnUID])
		if err != nil {
			return socket{}, fmt.Errorf("the kernel's sockets: user %q", f[columnUID])
		}
		inode, err := strconv.ParseUint(f[columnInode], 10, 64)
		if err != nil {
			return socket{}, fmt.Errorf("the kernel's sockets: inode %q", f[columnInode])
		}
		return socket{uid, inode}, nil
	}
	if err := lines.Err(); err != nil {
		return socket{}, fmt.Errorf("reading the kernel's sockets: %w", err)
	}
	return socket{}, errNoSocket
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// parse parses an address such as 0100007F:1F90: words of 32 bits in the host's order, then the port.
func parse(text string) (netip.AddrPort, bool) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for at := 0; at < len(raw); at += 4 {
		binary.NativeEndian.PutUint32(raw[at:], binary.BigEndian.Uint32(raw[at:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return unmap(netip.AddrPortFrom(ip, uint16(number))), ok
}
