package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// inside is the machine's first process: it runs the tests, prints their results, and turns the machine off.
func inside() {
	if err := all(); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println(passed)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // if it cannot be turned off, its time is limited
}

func all() error {
	if err := prepare(); err != nil {
		return fmt.Errorf("preparing the machine: %w", err)
	}
	tests, err := filepath.Glob(filepath.Join(programs, "*"))
	if err != nil || len(tests) == 0 {
		return errors.Join(err, errors.New("there are no tests"))
	}
	for _, test := range tests {
		var said bytes.Buffer
		cmd := exec.Command(test, "-test.v", "-test.run", os.Getenv("RUN"))
		cmd.Stdout = io.MultiWriter(os.Stdout, &said)
		cmd.Stderr, cmd.Dir = cmd.Stdout, "/tmp"
		err := cmd.Run()
		if bytes.Contains(said.Bytes(), []byte("--- SKIP")) || !bytes.Contains(said.Bytes(), []byte("--- PASS")) {
			err = errors.Join(err, errors.New("a test was skipped, or none was run"))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(test), err)
		}
	}
	return nil
}

// prepare sets up what a service manager would: file systems, commands, a network of its own, and controllers for groups.
func prepare() error {
	for _, at := range []struct{ dir, kind string }{{"/proc", "proc"}, {"/dev", "devtmpfs"}, {"/sys", "sysfs"}, {"/sys/fs/cgroup", "cgroup2"}} {
		if err := unix.Mount(at.kind, at.dir, at.kind, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", at.dir, err)
		}
	}
	if err := os.Setenv("PATH", "/bin"); err != nil {
		return err
	}
	for _, args := range [][]string{{"--install", "-s", "/bin"}, {"ifconfig", "lo", "up"}} {
		if out, err := exec.Command("/bin/busybox", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("busybox %s: %w: %s", args[0], err, out)
		}
	}
	for _, name := range modules {
		file, err := os.Open("/" + name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		_ = file.Close() // only read
		if err != nil {
			return fmt.Errorf("loading %s: %w", name, err)
		}
	}
	return os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory +pids +cpu"), 0o644)
}
