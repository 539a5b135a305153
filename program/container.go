package program

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// container is where a machine's setup and programs run when the job names an image: one per machine, so that what setup installs persists.
// It shares the machine's network, so that notices and ranks are reachable, and has Config.Dir at the same path.
type container struct {
	runtime string // docker or podman
	name    string
	holder  *exec.Cmd
	hold    io.WriteCloser // closing it ends the container, even if this process is killed
	ended   chan struct{}
}

// runtimes are tried in this order: images with GPU drivers usually have Docker set up.
var runtimes = []string{"docker", "podman"}

const (
	// inside is the script of the container's first process.
	inside = `echo ready; read -r _ || :`
	// insidePrelude is the prelude for a container: the environment comes on standard input, as NAME=VALUE terminated by zero bytes, which
	// keeps secrets out of command lines and the runtime's files.
	insidePrelude = `trap 'exit 143' TERM; while IFS= read -r -d '' one; do export "$one"; done; exec </dev/null; . "$0"`
	// endWithin is how long a container may take to end by itself.
	endWithin = 5 * time.Second
)

// openContainer pulls the image, if it is not present, and starts a container. The runtime's output goes to out.
func openContainer(ctx context.Context, image, dir string, out io.Writer) (*container, error) {
	program, err := Runtime(ctx)
	if err != nil {
		return nil, fmt.Errorf("the job's image cannot run on this machine: %w; let machines boot from a system with Docker or Podman, or leave image out", err)
	}
	c := &container{runtime: program, name: "tierml-" + strings.ToLower(rand.Text()), ended: make(chan struct{})}
	if image, err = c.pull(ctx, image, out); err != nil {
		return nil, err
	}
	c.holder = exec.Command(program, append(c.options(dir), image, "-c", inside)...)
	c.holder.Stderr = out
	c.holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.holder.WaitDelay = endWithin
	says, err := c.holder.StdoutPipe()
	if err == nil {
		c.hold, err = c.holder.StdinPipe()
	}
	if err == nil {
		err = c.holder.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting a container: %w", err)
	}
	ready := make(chan bool, 1)
	go func() {
		line, _ := bufio.NewReader(says).ReadString('\n')
		ready <- line == "ready\n"
		_ = c.holder.Wait() // Stderr has the reason
		close(c.ended)
	}()
	select {
	case ok := <-ready:
		if ok {
			return c, nil
		}
		<-c.ended
		return nil, fmt.Errorf("a container of %s does not start; programs need bash in it", image)
	case <-ctx.Done():
		c.close()
		return nil, ctx.Err()
	}
}

// Runtime returns the first container runtime that works on this machine, or why programs with an image cannot run here.
func Runtime(ctx context.Context) (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.New("containers of programs need Linux")
	}
	var faults []string
	for _, program := range runtimes {
		if _, err := exec.LookPath(program); err != nil {
			faults = append(faults, program+" is not installed")
			continue
		}
		said, err := exec.CommandContext(ctx, program, "ps", "--quiet").CombinedOutput() // contacts the daemon, if there is one
		if err == nil {
			return program, nil
		}
		faults = append(faults, fmt.Sprintf("%s does not work: %s", program, lastWords(said, err)))
	}
	return "", fmt.Errorf("no container runtime is here: %s",
		strings.Join(faults, ", "))
}

func lastWords(said []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}

// pull ensures that the image is present, and returns its full name.
func (c *container) pull(ctx context.Context, image string, out io.Writer) (string, error) {
	if exec.CommandContext(ctx, c.runtime, "image", "inspect", image).Run() == nil {
		return image, nil
	}
	image = qualified(image)
	cmd := exec.CommandContext(ctx, c.runtime, "pull", image)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("getting the image %s by %s: %w", image, c.runtime, err)
	}
	return image, nil
}

// qualified adds the registry that Docker assumes when none is named; Podman would prompt.
func qualified(image string) string {
	first, _, more := strings.Cut(image, "/")
	switch {
	case !more:
		return "docker.io/library/" + image
	case first == "localhost" || strings.ContainsAny(first, ".:"):
		return image
	}
	return "docker.io/" + image
}

// options returns the container's options; the image follows.
func (c *container) options(dir string) []string {
	user := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	if c.runtime == "podman" {
		user = "0:0" // without root, Podman's root is this user
	}
	options := []string{"run", "--rm", "--interactive", "--sig-proxy=false", "--name", c.name, "--network", "host", "--ipc", "host", "--user", user,
		"--security-opt", "label=disable", "--volume", dir + ":" + dir, "--workdir", dir, "--entrypoint", "bash"}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		if c.runtime == "podman" {
			return append(options, "--device", "nvidia.com/gpu=all")
		}
		options = append(options, "--gpus", "all")
	}
	return options
}

// command runs a script in the container. Everything that it starts has the identity in its environment; the runtime's own processes do
// not.
func (c *container) command(script, dir, id string, env []string) *exec.Cmd {
	cmd := exec.Command(c.runtime, "exec", "--interactive", "--env", identity+"="+id, "--workdir", dir, c.name, "bash", "-euo", "pipefail", "-c", insidePrelude, script)
	var all strings.Builder
	for _, one := range env {
		all.WriteString(one + "\x00")
	}
	cmd.Stdin = strings.NewReader(all.String())
	return cmd
}

// enter returns a shell line that runs a script with its arguments in the container, unless the shell is inside already.
func (c *container) enter(script string) string {
	return `[ -n "${TIERML_INSIDE-}" ] || { terminal=; [ ! -t 0 ] || terminal=--tty; exec ` + c.runtime + " exec --interactive $terminal --env TIERML_INSIDE=1 " +
		c.name + " bash " + quote(script) + ` "$@"; }` + "\n"
}

// over reports whether the container has ended.
func (c *container) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// close ends the container with all that runs in it.
func (c *container) close() {
	_ = c.hold.Close()
	select {
	case <-c.ended:
		return
	case <-time.After(endWithin):
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	_ = exec.CommandContext(ctx, c.runtime, "rm", "--force", c.name).Run() // it may no longer exist
	_ = c.holder.Process.Kill()
	<-c.ended
}
