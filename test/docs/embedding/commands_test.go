package embedding

import (
	"os"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

// entrance is the reader's main.
func entrance(serve func()) {
	if exechandler.Warden() {
		return // this process ends the commands of another one
	}
	serve()
}

// command is a job that runs one.
func command() (jobs.Handler, error) {
	return exechandler.New(exechandler.Command{
		Argv: []string{"tar", "--version"}, Environ: os.Environ(),
	})
}

func TestCommands(t *testing.T) {
	h, err := command()
	if err != nil {
		t.Fatal(err)
	}
	b := schedulertest.New(t, jobs.Set{Pools: map[string]jobs.Pool{"backups": {Handler: h}}}, schedulertest.Options{})
	b.Enqueue(jobs.NewTask{Pool: "backups"})
	if got := b.Drain(); len(got) != 1 || got[0].State != jobs.StateSucceeded {
		t.Errorf("%+v", got)
	}
	if exechandler.CanWarden() && !strings.HasPrefix(starter(t), "lockstep-warden") {
		t.Errorf("commands are started by %s", starter(t))
	}
}

// starter is what starts commands here.
func starter(t *testing.T) string {
	t.Helper()
	h, err := exechandler.New(exechandler.Command{Shell: "cat /proc/$PPID/cmdline"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := h.Run(t.Context(), jobs.Task{}, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
