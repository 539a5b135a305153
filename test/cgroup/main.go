// Command cgroup runs tests as root of a small virtual machine with its own cgroup v2: many computers, and most containers, have none that
// is writable. `make test-cgroup` calls it; it needs Debian's qemu and busybox, and Linux on amd64.
//
// It puts itself, busybox and the test programs into an initial file system, boots a kernel with it, and is the first process there.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	programs = "/tests" // in the machine
	passed   = "ALL TESTS HAVE PASSED IN THE MACHINE"
	patience = 10 * time.Minute // qemu emulates the processor: it takes twenty times as long
)

// modules identify the user of a connection (internal/sameuser); each needs those before it.
var modules = []string{"inet_diag.ko", "tcp_diag.ko"}

func main() {
	if os.Getpid() == 1 {
		inside()
		return
	}
	kernel := flag.String("kernel", "", "the unpacked `folder` of a Debian package with a kernel")
	busybox := flag.String("busybox", "/bin/busybox", "a static busybox")
	run := flag.String("run", ".", "tests to run")
	flag.Parse()
	if err := outside(*kernel, *busybox, *run, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// outside boots the machine, and fails unless all tests have run and passed.
func outside(kernel, busybox, run string, tests []string) error {
	dir, err := os.MkdirTemp("", "tierml-cgroup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	boots, err := only(filepath.Join(kernel, "boot", "vmlinuz-*"))
	if err != nil {
		return err
	}
	files := map[string]string{"/init": self, "/bin/busybox": busybox}
	for _, name := range modules {
		if files["/"+name], err = only(filepath.Join(kernel, "lib", "modules", "*", "kernel", "net", "ipv4", name)); err != nil {
			return err
		}
	}
	for _, test := range tests {
		files[filepath.Join(programs, filepath.Base(test))] = test
	}
	image := filepath.Join(dir, "initrd")
	if err := pack(image, files); err != nil {
		return fmt.Errorf("making the machine's files: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-cpu", "max", "-m", "2048", "-nographic", "-no-reboot", "-kernel", boots,
		"-initrd", image, "-append", "console=ttyS0 quiet RUN="+run)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &said), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the machine: %w", err)
	}
	if !bytes.Contains(said.Bytes(), []byte(passed)) {
		return errors.New("a test has failed or was skipped in the machine")
	}
	return nil
}

// only returns the single file that matches a pattern.
func only(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return "", errors.Join(err, fmt.Errorf("%d files are %s, not one", len(found), pattern))
	}
	return found[0], nil
}

// pack writes named files into an archive that a kernel uses as its first file system (cpio, "newc").
func pack(to string, files map[string]string) error {
	var out bytes.Buffer
	add := func(name string, mode int, data []byte) {
		const links = 1
		fmt.Fprintf(&out, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
		for _, part := range [][]byte{append([]byte(name), 0), data} {
			out.Write(part)
			out.Write(make([]byte, -out.Len()&3))
		}
	}
	const directory, program = 0o040755, 0o100755
	for _, dir := range []string{"bin", "dev", "proc", "sys", "tmp", programs[1:]} {
		add(dir, directory, nil)
	}
	for name, from := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		add(strings.TrimPrefix(name, "/"), program, data)
	}
	add("TRAILER!!!", 0, nil)
	return os.WriteFile(to, out.Bytes(), 0o600)
}
