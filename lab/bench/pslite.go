package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// startPSLite compiles our program against the ps-lite library in its folder, and starts the three
// processes that ps-lite needs.
func startPSLite(ctx context.Context, env *Env) (p *pushPull, skip string, err error) {
	folder, skip := env.Peer("PSLITE", among("ps-lite"))
	if skip != "" {
		return nil, skip, nil
	}
	program, skip := env.Compile(ctx, "pslite.cc", "-std=c++11", "-I"+filepath.Join(folder, "include"),
		filepath.Join(folder, "build", "libps.a"), "-lprotobuf-lite", "-lzmq", "-lpthread")
	if skip != "" {
		return nil, skip, nil
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	variables := []string{"DMLC_NUM_SERVER=1", "DMLC_NUM_WORKER=1", "DMLC_PS_ROOT_URI=127.0.0.1",
		fmt.Sprintf("DMLC_PS_ROOT_PORT=%d", port), "DMLC_NODE_HOST=127.0.0.1", "DMLC_INTERFACE=lo"}
	var others []*exec.Cmd
	end := func() {
		for _, cmd := range others {
			_ = cmd.Wait()
		}
	}
	for _, role := range []string{"scheduler", "server"} {
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(append(os.Environ(), variables...), "DMLC_ROLE="+role)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return nil, "", err
		}
		others = append(others, cmd)
	}
	worker, err := Start(ctx, append(variables, "DMLC_ROLE=worker"), program)
	if err != nil {
		for _, cmd := range others {
			_ = cmd.Process.Kill()
		}
		end()
		return nil, "", err
	}
	return &pushPull{client: worker, close: func() { worker.Close(); end() }}, "", nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
