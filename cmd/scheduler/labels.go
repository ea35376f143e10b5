package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// parseLabels reads labels as they are written in flags.
func parseLabels(flags []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, f := range flags {
		key, value, ok := strings.Cut(f, "=")
		if !ok || key == "" {
			return nil, usagef("--label %q: write it as KEY=VALUE", f)
		}
		if other, twice := labels[key]; twice && other != value {
			return nil, usagef("--label: %s cannot be both %q and %q", key, other, value)
		}
		labels[key] = value
	}
	return labels, nil
}

var errNoSuchJobs = errors.New("no job has these labels")

// noSuchJobs is the error for labels that no job has.
func noSuchJobs(labels map[string]string) error {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, key+"="+labels[key])
	}
	return usageError{fmt.Errorf("--label %s: %w", strings.Join(words, ","), errNoSuchJobs)}
}

// labelled loads the configuration; chosen are those of its jobs that have all of the labels, an error if labels are given that none has.
func (a *app) labelled(labels map[string]string) (c *config.Config, chosen map[string]jobs.Job, err error) {
	if c, err = a.loadConfig(); err != nil {
		return nil, nil, err
	}
	chosen = maps.Clone(c.Set.Jobs)
	maps.DeleteFunc(chosen, func(_ string, j jobs.Job) bool { return !ledger.Matches(labels, j.Labels) })
	if len(chosen) == 0 && len(labels) > 0 {
		return nil, nil, noSuchJobs(labels)
	}
	return c, chosen, nil
}
