package jobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
)

// Hash is a fingerprint of what decides how the job runs, 32 hexadecimal digits: of the whole definition but for
// Description and Labels, which are for people. It is equal for equal definitions, in every process. A zero field and
// its written default are the same. Of a handler its identity counts, see [Identified], and with it values that may be
// secret: do not show the hash.
//
// Of calendars it has the names; [Compiler.Hash] has their content as well.
//
// A replica leaves a job alone while a newer configuration has it with another hash.
func (j Job) Hash() string {
	j = j.WithDefaults()
	j.Schedule, j.Schedules = "", j.spelled()
	j.StartsAt, j.EndsAt = j.StartsAt.UTC(), j.EndsAt.UTC()
	if j.LostLimit == limits.Losses {
		j.LostLimit = 0
	}
	if j.MaxRunning == 1 {
		j.MaxRunning = 0
	}
	if j.QueueLimit == limits.Queue {
		j.QueueLimit = 0
	}
	j.Retries, j.Output = j.Retries.hashed(), j.Output.hashed()
	j.Calendars = j.Calendars.hashed()
	j.Description, j.Labels = "", map[string]string{}
	if j.RunsOn == nil {
		j.RunsOn = map[string]string{}
	}
	payload, _ := j.EncodePayload()
	j.Payload = []byte(payload)
	j.Params = sortedKeys(j.Params)
	return fingerprint(struct {
		Job
		Handler string // takes the place of Job's
		Notify  any    `json:",omitempty"`
	}{j, identify(j.Handler), j.Notify.described()})
}

// ScheduleHash is a fingerprint of what decides the due times of a job, beside its name: schedules, zone, StartsAt, EndsAt, Spread and
// the names of its calendars; [Compiler.ScheduleHash] has their content as well.
func (j Job) ScheduleHash() string {
	return fingerprint(struct {
		Schedules []string
		Timezone  string
		StartsAt  time.Time     `json:",omitzero"`
		EndsAt    time.Time     `json:",omitzero"`
		Spread    time.Duration `json:",omitempty"`

		Calendars JobCalendars `json:",omitzero"`
	}{j.spelled(), j.WithDefaults().Timezone, j.StartsAt.UTC(), j.EndsAt.UTC(), j.Spread, j.Calendars.hashed()})
}

// Hash is a fingerprint of the whole definition, as a job's, and tells any two apart. What replicas with different
// configurations have in common of a pool is in HandlerHashes.
func (p Pool) Hash() string {
	p = p.WithDefaults()
	p.Retries.Limit = max(p.Retries.Limit, 0)
	p.Retries, p.Output = p.Retries.hashed(), p.Output.hashed()
	if p.Order == OrderNone {
		p.Order = ""
	}
	if p.LostLimit == limits.Losses {
		p.LostLimit = 0
	}
	if p.Fair != nil && p.Fair.Weights == nil {
		p.Fair = &Fair{Weights: map[string]int{}}
	}
	kinds := map[string]string{}
	for kind, h := range p.Kinds {
		kinds[kind] = identify(h)
	}
	return fingerprint(struct {
		Pool
		Handler string
		Kinds   map[string]string
		Notify  any `json:",omitempty"`
	}{p, identify(p.Handler), kinds, p.Notify.described()})
}

// HandlerHashes are fingerprints of how the pool runs tasks, by their kind, for each kind that it has a handler for; ""
// is for tasks without a kind; that of a [Worker] begins with "worker:". Each is of the handler's identity and of what the replica that runs the task goes by:
// Timeout, OnLost, Retries, RunsOn, Locks, LockWait and Output. As with Hash, do not show them.
//
// A replica leaves those tasks of a pool alone whose kind a newer configuration has with another fingerprint, or
// does not have. The limits of all replicas together are not among them: they are those of the newest configuration, wherever the
// task runs.
func (p Pool) HandlerHashes() map[string]string {
	p = p.WithDefaults()
	p.Retries.Limit = max(p.Retries.Limit, 0)
	p.Retries = p.Retries.hashed()
	hash := func(h Handler) string {
		by := ""
		if IsWorker(h) {
			by = workerHash
		}
		return by + fingerprint(struct {
			Handler string
			Timeout time.Duration
			OnLost  OnLost
			Retries Retries

			Locks    []Lock        `json:",omitempty"`
			LockWait time.Duration `json:",omitempty"`
			Output   Output        `json:",omitzero"`

			RunsOn map[string]string `json:",omitempty"`
		}{identify(h), p.Timeout, p.OnLost, p.Retries, p.Locks, p.LockWait, p.Output.hashed(), p.RunsOn})
	}
	hashes := map[string]string{}
	for kind, h := range p.Kinds {
		hashes[kind] = hash(h)
	}
	if p.Handler != nil {
		hashes[""] = hash(p.Handler)
	}
	return hashes
}

// spelled is the job's expressions with single blanks, in a fixed order; those that their place decides, with it.
func (j Job) spelled() []string {
	specs := []string{}
	for i, one := range j.Specs() {
		spec := strings.Join(strings.Fields(one), " ")
		if usesHash(spec) {
			spec += fmt.Sprintf(" #%d", i)
		}
		specs = append(specs, spec)
	}
	slices.Sort(specs)
	return slices.Compact(specs)
}

// sortedKeys is a value of JSON, without the order of its keys.
func sortedKeys(v any) any {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return v
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var plain any
	if dec.Decode(&plain) != nil {
		return v
	}
	return plain
}

// identify says what tells a handler from others; of one that does not say, only the type is known.
func identify(h Handler) string {
	if h == nil {
		return ""
	}
	if i, ok := unwrap.As[Identified](h); ok {
		return i.Identity()
	}
	return handlerShown(h)
}

// fingerprint hashes v as JSON, which has one form for one value: fields in their order, maps by key.
func fingerprint(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		// Strings, numbers and maps of them always have a form; a test holds it for all fields.
		text = fmt.Appendf(nil, "%T: %v", v, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
