package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Two ends that only send a vector there and back, on connections like the parameter server's, with and without TLS:
// the part of a link's rate that crypto/tls leaves to anything built on it.

// bareFlags parses the flags of both ends.
func bareFlags(name string, args []string) (flags *flag.FlagSet, listen string, secure *tls.Config, err error) {
	flags = flag.NewFlagSet(name, flag.ContinueOnError)
	certificate := flags.String("tls", "", "file with certificate and key: mutual TLS")
	flags.StringVar(&listen, "listen", "127.0.0.1", "the address that the server serves at")
	if err := flags.Parse(args); err != nil {
		return nil, "", nil, err
	}
	if secure, err = mutualTLS(*certificate); secure != nil {
		secure.ServerName, secure.DynamicRecordSizingDisabled = "127.0.0.1", true // the name in the certificate
	}
	return flags, listen, secure, err
}

// echoVectors is the server's process. A vector is its length, in eight bytes, followed by its bytes.
func echoVectors(args []string) error {
	_, listen, secure, err := bareFlags("bare-server", args)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
	if err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid(), listener.Addr())
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	if secure != nil {
		conn = tls.Server(conn, secure)
	}
	defer conn.Close()
	for vector := make([]byte, 8); ; {
		if _, err := io.ReadFull(conn, vector[:8]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if n := 8 + int(binary.LittleEndian.Uint64(vector)); n > len(vector) {
			vector = append(make([]byte, 0, n), vector[:8]...)[:n]
		} else {
			vector = vector[:n]
		}
		if _, err := io.ReadFull(conn, vector[8:]); err != nil {
			return err
		}
		if _, err := conn.Write(vector); err != nil {
			return err
		}
	}
}

// sendVectors is the client's process.
func sendVectors(args []string) error {
	flags, _, secure, err := bareFlags("bare-client", args)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", flags.Arg(0))
	if err != nil {
		return err
	}
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	defer conn.Close()
	fmt.Println("ready", os.Getpid())
	return answer(func(size, pairs int) error {
		there, back := make([]byte, 8+size), make([]byte, 8+size)
		binary.LittleEndian.PutUint64(there, uint64(size))
		for range pairs {
			if _, err := conn.Write(there); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, back); err != nil {
				return err
			}
		}
		return nil
	})
}

// answer serves requests on standard input: for each line "MODE BYTES PAIRS" it prints the elapsed nanoseconds.
func answer(do func(size, pairs int) error) error {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var mode string
		var size, pairs int
		if _, err := fmt.Sscan(in.Text(), &mode, &size, &pairs); err != nil {
			return err
		}
		began := time.Now()
		if err := do(size, pairs); err != nil {
			return err
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
	return nil
}
