package main

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// replaced keeps which jobs were loaded.
type replaced struct {
	jobs  []string
	last  jobs.Set
	while func() // it loads
}

func (r *replaced) Replace(_ context.Context, set jobs.Set, _ scheduler.ReplaceOptions) (wire.Reloaded, error) {
	r.jobs, r.last = append(r.jobs, strings.Join(slices.Sorted(maps.Keys(set.Jobs)), " ")), set
	if r.while != nil {
		r.while()
	}
	return wire.Reloaded{}, nil
}

// A change of a file that comes while files are read, or later, is loaded by the next poll, also at the start and where the load has read other files than
// the one before.
func TestAChangeDuringALoadIsLoaded(t *testing.T) {
	dir := t.TempDir()
	path, more := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "more.yaml")
	swapFile(t, path, withJobs("watch: false", "a"))
	files := &loadedFiles{}
	c, err := config.Load(path, config.Options{Opened: files.note})
	if err != nil {
		t.Fatal(err)
	}
	swapFile(t, path, withJobs("watch: false", "b")) // the replica is about to start with a
	r := &replaced{}
	own := newConfiguration(c, files, nil, slog.New(slog.DiscardHandler))
	defer own.close()
	own.replica = r
	polled := func(want ...string) {
		t.Helper()
		r.jobs = nil
		own.file.poll()
		if !slices.Equal(r.jobs, want) {
			t.Errorf("the poll loads %q, want %q", r.jobs, want)
		}
	}
	polled("b")
	polled()

	swapFile(t, more, "jobs: {c: {command: [echo]}}")
	swapFile(t, path, withJobs("watch: false\ninclude: [more.yaml]", "b"))
	r.while = func() {
		r.while = nil
		swapFile(t, more, "jobs: {d: {command: [echo]}}")
	}
	polled("b c")
	polled("b d")
	polled()

	swapFile(t, path, withJobs("watch: false\ninclude: [\"m*.yaml\"]", "b"))
	r.while = func() {
		r.while = nil
		swapFile(t, filepath.Join(dir, "m.yaml"), "jobs: {e: {command: [echo]}}")
	}
	polled("b d")
	polled("b d e")
	polled()
}

// A file that changes between two readings of one load has neither content.
func TestAFileThatIsReadTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holidays.ics")
	swapFile(t, path, "1")
	l := &loadedFiles{}
	for _, content := range []string{"1", "1"} {
		l.note(path, []byte(content))
	}
	l.note(path, nil)
	if got := l.contents(); len(got) != 1 || !bytes.Equal(got[0], readHash(path)) {
		t.Errorf("%x, want %x", got, readHash(path))
	}
	l.note(path, []byte("2"))
	l.note(path, []byte("1"))
	if got := l.contents(); len(got) != 1 || bytes.Equal(got[0], readHash(path)) || bytes.Equal(got[0], hashOf([]byte("2"))) {
		t.Errorf("two contents are kept as %x", got)
	}
}

// A reload reuses the jobs whose text is as it was, also after a file that is wrong.
func TestAReloadReadsWhatHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lockstep.yaml")
	swapFile(t, path, withJobs("", "a", "b", "c"))
	c, err := config.Load(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &replaced{}
	own := newConfiguration(c, &loadedFiles{}, nil, slog.New(slog.DiscardHandler))
	defer own.close()
	own.replica = r
	var had jobs.Handler
	for i, names := range [][]string{{"a", "b", "d"}, {"a", "b", "d", "a"}, {"a", "b", "c", "d"}, {"b", "a"}} {
		swapFile(t, path, withJobs("", names...))
		if _, err := own.load(t.Context(), false); (i == 1) != (err != nil) {
			t.Fatalf("%v: %v", names, err)
		}
		if is := r.last.Jobs["a"].Handler; i == 0 {
			had = is
		} else if is != had {
			t.Errorf("%v: the job a was read again", names)
		}
	}
}
