package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// The store keeps as much of an output as its pool says, and the file of the replica has all of it. An attempt whose file cannot be written runs as ever, and
// its output says so.
func TestOutputsAreKeptAndWrittenAsDefined(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		st := &written{Store: &memstore.Store{Database: memstore.New()}}
		h := replicatest.Function(func(_ context.Context, task jobs.Task, out io.Writer) error {
			for i := range 1000 {
				fmt.Fprintf(out, "%s %03d\n", task.Kind, i)
			}
			if task.Attempt == 1 {
				return errors.New("again")
			}
			return nil
		})
		kinds := map[string]jobs.Handler{"a": h, "b": h}
		retries := jobs.Retries{Limit: 1, Backoff: time.Millisecond}
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{
			"small":  {Kinds: kinds, Retries: retries, Output: jobs.Output{Keep: 1 << 10, File: filepath.Join(dir, "{{.pool}}", "{{.kind}}-{{.replica}}.log"), FileSize: 4 << 10, Files: 2}},
			"large":  {Kinds: kinds, Retries: retries, Output: jobs.Output{File: filepath.Join(dir, "{{.pool}}.log")}},
			"cannot": {Kinds: kinds, Retries: jobs.Retries{Limit: 1, Backoff: time.Millisecond}, Output: jobs.Output{File: "/dev/null/x"}},
		}}, Options{ID: "r"})
		time.Sleep(time.Second)
		ids := map[string]string{}
		for pool := range map[string]int{"small": 0, "large": 0, "cannot": 0} {
			added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: pool, Kind: "a"}, jobs.NewTask{Pool: pool, Kind: "b"})
			if err != nil {
				t.Fatal(err)
			}
			ids[pool] = added[0].Task.ID
		}
		time.Sleep(time.Minute)
		for pool, id := range ids {
			task, _, err := st.Task(t.Context(), id)
			if err != nil || task.State != jobs.StateSucceeded {
				t.Fatalf("%s: %+v, %v", pool, task, err)
			}
			kept, err := st.Output(t.Context(), id, 2)
			if err != nil {
				t.Fatal(err)
			}
			text := string(kept)
			if large := len(text) > 5000; large != (pool != "small") {
				t.Errorf("of an attempt in %s %d bytes are kept", pool, len(text))
			}
			if says := strings.Contains(text, "[the output is not whole in its file: mkdir /dev/null: not a directory]"); says != (pool == "cannot") {
				t.Errorf("%s: the output ends with %q", pool, text[len(text)-100:])
			}
		}
		small := filepath.Join(dir, "small", "a-r.log")
		for name, most := range map[string]int{small: 4 << 10, small + ".1": 4 << 10, small + ".2": 4 << 10} {
			text, err := os.ReadFile(name)
			if err != nil || len(text) == 0 || len(text) > most || !strings.HasPrefix(string(text), "a ") {
				t.Errorf("%s has %d bytes, %v", name, len(text), err)
			}
		}
		if _, err := os.Stat(small + ".3"); err == nil {
			t.Error("a third rotated file is kept")
		}
		text, err := os.ReadFile(filepath.Join(dir, "large.log"))
		for _, line := range []string{"a 000\n", "a 999\n", "b 500\n"} {
			if n := strings.Count(string(text), line); n != 2 || err != nil {
				t.Errorf("the file has %d times %q, %v", n, line, err)
			}
		}
	})
}
