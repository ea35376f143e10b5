package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newPoolsCommand(a *app) *cobra.Command {
	return group("pools", "Show pools, pause and resume them, set their limits",
		newPoolsListCommand(a),
		newPoolsOverrideCommand(a, "pause", "Start no task of a pool until it is resumed", (*client.Client).PausePool),
		newPoolsOverrideCommand(a, "resume", "Start tasks of a pool again", (*client.Client).ResumePool),
		newPoolsSetCommand(a),
	)
}

// orderText is in which order the tasks of a pool start, by their keys; empty: by priority and due time.
func orderText(order jobs.Order, fair bool) string {
	var words []string
	if order == jobs.OrderKey {
		words = append(words, string(order))
	}
	if fair {
		words = append(words, "fair")
	}
	return strings.Join(words, "+")
}

func newPoolsListCommand(a *app) *cobra.Command {
	return newListCommand(a, listing[wire.Pool]{
		short:   "List the pools and their numbers of tasks",
		more:    ".\n\nMAX is the limit of running tasks, and RATE that of starts, of all replicas. PER-KIND are those of\nkinds, and PER-KEY those of the tasks with one key; with the ORDER key these run one after the other; with fair the keys share the\npool. With a * a limit is set\nby 'scheduler pools set', and -o json has by whom.",
		heading: "POOL STATE WORKERS MAX RATE PER-KIND PER-KEY ORDER RUNNING PENDING SCHEDULED OLDEST",
		fetch:   (*client.Client).Pools,
		row: func(p wire.Pool) []string {
			return []string{p.Name, poolState(p), number(p.Workers), maxOf(p), rateOf(p), perKindOf(p), perKeyOf(p), orderOf(p), number(p.Running), atLeast(p, p.Pending), atLeast(p, p.Scheduled), a.ago(p.OldestPending)}
		},
		note: notesOfPools,
		also: func(c *client.Client, ctx context.Context) string {
			if now, err := c.Paused(ctx); err == nil && now.Paused {
				return pausedText(now.Pause) + "; 'scheduler resume' resumes it\n"
			}
			return "" // that of an older replica does not say
		},
	})
}

// pausesItself is a line about a pool with pause_on.
func pausesItself(pool string, on wire.PauseOn) string {
	return fmt.Sprintf("%s pauses itself when %s of its last %s have failed\n", pool, on.Failures, count(on.Of, "attempt"))
}

// notesOfPools says what the lines of pools have no room for.
func notesOfPools(pools []wire.Pool) string {
	var notes strings.Builder
	if slices.ContainsFunc(pools, func(p wire.Pool) bool { return p.Limits != nil }) {
		notes.WriteString("* set by 'scheduler pools set' in place of the configuration, until --reset\n")
	}
	for _, p := range pools {
		if len(p.RunsOn) > 0 {
			fmt.Fprintf(&notes, "%s runs on replicas with %s\n", p.Name, pairs(p.RunsOn))
		}
		if p.PauseOn != nil {
			notes.WriteString(pausesItself(p.Name, *p.PauseOn))
		}
		for _, aside := range p.LimitsAside {
			fmt.Fprintf(&notes, "%s: what was set of %s is set aside: it %s\n", p.Name, aside.Field, aside.Why)
		}
		if p.PausedReason != "" {
			fmt.Fprintf(&notes, "%s was paused by %s: %s; 'scheduler pools resume %s' resumes it\n", p.Name, p.PausedBy, p.PausedReason, p.Name)
		}
	}
	return notes.String()
}

// atLeast is a number of tasks, which a replica counts up to 10,000.
func atLeast(p wire.Pool, n int) string {
	if p.Approximate && n >= 10_000 {
		return fmt.Sprintf("≥%d", n)
	}
	return number(n)
}

// maxOf is the limit of running tasks, marked if it is an override; "" without one.
func maxOf(p wire.Pool) string {
	if p.Limits != nil && p.Limits.MaxRunning != nil {
		return fmt.Sprint(p.MaxRunning, "*")
	}
	return number(p.MaxRunning)
}

// rateOf is the limit of starts and its burst, marked if either is an override; "" without one.
func rateOf(p wire.Pool) string {
	o := p.Limits
	return marked(rateText(p.Rate, p.Burst), o != nil && (o.Rate != nil || o.Burst != nil))
}

// perKeyOf, perKindOf and orderOf are marked if an override has set some of them.
func perKeyOf(p wire.Pool) string {
	return marked(perKeyText(jobs.KeyLimits(p.PerKey)), p.Limits != nil && p.Limits.PerKey != nil)
}

func perKindOf(p wire.Pool) string {
	return marked(perKindText(p.PerKind), p.Limits != nil && len(p.Limits.PerKind) > 0)
}

func orderOf(p wire.Pool) string {
	return marked(orderText(p.Order, p.Fair != nil), p.Limits != nil && p.Limits.Fair != nil)
}

func marked(text string, set bool) string {
	if set {
		return cmp.Or(text, "0") + "*"
	}
	return text
}

func rateText(rate jobs.Rate, burst int) string {
	var words []string
	if rate != (jobs.Rate{}) {
		words = append(words, rate.String())
	}
	if burst > 0 {
		words = append(words, "burst "+number(burst))
	}
	return strings.Join(words, " ")
}

// perKeyText is what limits the tasks with one key; "" if nothing does.
func perKeyText(l jobs.KeyLimits) string {
	var words []string
	if l.MaxRunning > 0 {
		words = append(words, "max "+number(l.MaxRunning))
	}
	if rate := rateText(l.Rate, l.Burst); rate != "" {
		words = append(words, rate)
	}
	return strings.Join(words, ", ")
}

// perKindText is what limits kinds, sorted; "" if nothing does.
func perKindText(of map[string]wire.KeyLimits) string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		if text := perKeyText(jobs.KeyLimits(of[kind])); text != "" {
			words = append(words, kind+": "+text)
		}
	}
	return strings.Join(words, "; ")
}

func newPoolsOverrideCommand(a *app, verb, short string, set request[wire.Pool]) *cobra.Command {
	return newOverrideCommand(a, setting[wire.Pool]{
		use: verb + " POOL", short: short, set: set, reset: (*client.Client).ResetPause,
		long:    ", on all replicas. Running tasks go on. This overrides the configuration until --reset.",
		message: func(p wire.Pool) string { return p.Name + " is " + poolState(p) },
	})
}

func poolState(p wire.Pool) string {
	switch {
	case p.Retired:
		return "retired"
	case p.Paused:
		return "paused"
	}
	return "active"
}

func newReplicasCommand(a *app) *cobra.Command {
	return group("replicas", "Show the replicas", newListCommand(a, listing[wire.Replica]{
		short: "List the replicas, and expired ones whose tasks are not reaped yet",
		more: ".\n\nCONFIG is the number of the replica's configuration, HASH that of its content, and FILE(UTC) the time of its file. A content gets\n" +
			"its number once, when it is loaded first. The highest one of the live replicas governs, and has a *: jobs and pools that another\n" +
			"replica has otherwise are left to those with a *. 'scheduler reload --activate' makes an older configuration the newest.",
		heading: "REPLICA STATE PROCESS ADDRESS WORKERS VERSION CONFIG HASH FILE(UTC) JOINED SEEN LABELS",
		fetch:   (*client.Client).Replicas,
		row: func(r wire.Replica) []string {
			return []string{
				r.ID, r.State, fmt.Sprintf("%s/%d", r.Host, r.PID), r.Address, number(r.Workers), r.Version,
				configNumber(r), r.ConfigHash[:min(12, len(r.ConfigHash))], utc(r.ConfigTime), a.ago(r.JoinedAt), a.ago(r.SeenAt), pairs(r.Labels),
			}
		},
		note: notesOfReplicas,
	}))
}

// configNumber is marked if the configuration governs; "" before one is loaded.
func configNumber(r wire.Replica) string { return marked(number(int(r.Config)), r.Governs) }

// notesOfReplicas says which replicas have older configurations, and what the one that governs has otherwise.
func notesOfReplicas(replicas []wire.Replica) string {
	var notes strings.Builder
	for _, r := range replicas {
		if r.Differs != "" && !r.Governs && r.State != "dead" {
			fmt.Fprintf(&notes, "%s has an older configuration than the one that governs, which has otherwise: %s\n", r.ID, r.Differs)
		}
	}
	return notes.String()
}

func newWorkersCommand(a *app) *cobra.Command {
	return group("workers", "Show the workers that take tasks over HTTP", newListCommand(a, listing[wire.Worker]{
		short:   "List the workers over HTTP, and expired ones whose tasks are not reaped yet",
		more:    ".\n\nA worker takes the tasks of KINDS; (none) is for tasks without a kind, and runs RUNNING of them. TOKEN is the name of the token\nthat opened its session.",
		heading: "WORKER STATE POOL KINDS RUNNING TOKEN JOINED SEEN",
		fetch:   (*client.Client).Workers,
		row: func(w wire.Worker) []string {
			kinds := make([]string, len(w.Kinds))
			for i, kind := range w.Kinds {
				kinds[i] = cmp.Or(kind, "(none)")
			}
			return []string{w.ID, w.State, w.Pool, strings.Join(kinds, ","), fmt.Sprint(w.Running), w.Token, a.ago(w.JoinedAt), a.ago(w.SeenAt)}
		},
	}))
}

func newAuditCommand(a *app) *cobra.Command {
	return group("audit", "Show who changed what", newListCommand(a, listing[wire.AuditEntry]{
		short:   "List who changed what through the API, or tried to, the latest first",
		heading: "AT(UTC) WHO ROLE FROM ACTION OBJECT STATUS TASK TASKS REQUESTS",
		fetch:   (*client.Client).Audit,
		row: func(e wire.AuditEntry) []string {
			if e.Object == "" && e.Count > 1 {
				e.Object = "(several)"
			}
			return []string{utc(e.At), e.Who, e.Role, e.Remote, e.Action, e.Object, fmt.Sprint(e.Status), e.TaskID, number(e.Tasks), number(max(e.Count, 1))}
		},
		latest: true,
	}))
}
