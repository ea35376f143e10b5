package compat

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

// replica is one process of one of the programs.
type replica struct {
	*client.Client
	process *program.Process
	id      string
}

// start returns when the replica is ready.
func start(t *testing.T, binary, config, id string) *replica {
	t.Helper()
	cmd := exec.Command(binary, "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", id)
	cmd.Dir = filepath.Dir(config)
	r := &replica{process: program.Start(t, cmd), id: id}
	var err error
	if r.Client, err = client.New(r.process.URL(t), client.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// drain stops the replica with SIGTERM, and checks its exit.
func (r *replica) drain(t *testing.T) {
	t.Helper()
	r.process.Drain(t, 30*time.Second)
}
