//go:build linux

package arena

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// The jobs that versions of the configuration have in different ways: one is due at other times in each, and odd ones have one more.
const (
	editedJob = "edited"
	addedJob  = "added"
)

// jobsAt are the jobs of a version. Each version is a content of its own.
func jobsAt(version int) []job {
	all := jobsOfRun()
	for i := range all {
		if j := &all[i].Job; j.Name == editedJob {
			j.Due = every(3*time.Second, time.Duration(version%3)*time.Second)
			j.Timeout += time.Duration(version) * time.Second
		}
	}
	if version%2 == 1 {
		added := addedToRun()
		added.Due = every(2*time.Second, time.Second)
		all = append(all, added)
	}
	return all
}

// addedToRun is the job that odd versions have more.
func addedToRun() job {
	j := job{Job: history.Job{Name: addedJob, Takes: time.Second}, does: "-takes 500ms"}
	j.fill()
	return j
}

// dueAt are the due times of the jobs that versions have in different ways.
func dueAt(version int) map[string][]history.Every {
	all := map[string][]history.Every{}
	for _, j := range jobsAt(version) {
		if j.Name == editedJob || j.Name == addedJob {
			all[j.Name] = j.Due
		}
	}
	return all
}

// Version is the newest version of the configuration that a replica was given.
func (a *Arena) Version() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version
}

// NewVersion makes the next one, which no replica has yet.
func (a *Arena) NewVersion() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	return a.version
}

// The setting that a rolling reload changes, and what it changes it to.
const (
	Toggle  = "timeout: 1m0s"
	Toggled = "timeout: 59s"
)

// Give writes a version into the configuration file of a replica, whole at once. It tells a running one by a signal, or leaves it to it to notice. What rolling
// reloads have changed in the file stays.
func (r *Replica) Give(what string, version int, tell bool) error {
	text := r.arena.configuration(version)
	now, err := os.ReadFile(r.Config)
	if err != nil {
		return err
	}
	if bytes.Contains(now, []byte(Toggled)) {
		text = strings.ReplaceAll(text, Toggle, Toggled)
	}
	e := history.Edit{Replica: r.ID, What: what, Version: version, Due: dueAt(version)}
	if what == history.EditInvalid {
		text, e.Due = text+"  broken: {schedul: x}\n", nil
	}
	if err := r.arena.noteEdit(e); err != nil {
		return err
	}
	whole := r.Config + ".new" // a reader never finds a part of it
	if err := os.WriteFile(whole, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(whole, r.Config); err != nil || !tell {
		return err
	}
	return r.Signal(syscall.SIGHUP)
}

func (a *Arena) noteEdit(e history.Edit) error {
	log, err := history.OpenLog[history.Edit](a.Dir, history.EditsFile)
	if err != nil {
		return err
	}
	defer log.Close()
	e.At = time.Now()
	return log.Add(e)
}

// Loaded is what a replica has loaded.
type Loaded struct {
	Hash    string `json:"config_hash"`
	Governs bool   `json:"governs"`
}

// Loaded is what each live replica has loaded, by its id, as one of them says.
func (a *Arena) Loaded(ctx context.Context) (map[string]Loaded, error) {
	var err error
	c := &caller{http: a.http}
	for _, r := range a.Replicas {
		var page struct {
			Items []struct {
				ID, State string
				Loaded
			}
		}
		if _, err = c.get(ctx, r.URL()+"/api/v1/replicas", &page); err != nil {
			continue
		}
		all := map[string]Loaded{}
		for _, one := range page.Items {
			if one.State == "live" && a.Replica(one.ID) != nil {
				all[one.ID] = one.Loaded
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("no replica says what is loaded: %w", err)
}

// RefusesFile reports whether a replica says that its configuration file cannot be used, and is ready all the same.
func (r *Replica) RefusesFile(ctx context.Context) bool {
	status, text := r.look(ctx, "/readyz")
	return status == http.StatusOK && bytes.Contains(text, []byte("configuration file")) && bytes.Contains(text, []byte("cannot be used"))
}
