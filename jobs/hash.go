package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Hash is a fingerprint of the whole definition, 32 hexadecimal digits: equal for equal
// definitions, in every process. A zero field and its written default are the same. Of a handler
// its identity counts, see [Identified], and with it values that may be secret: show the hash to
// nobody.
func (j Job) Hash() string {
	j = j.WithDefaults()
	j.Schedule, j.Schedules = "", j.spelled()
	j.RunsOn, j.Labels = orEmpty(j.RunsOn), orEmpty(j.Labels)
	return fingerprint(struct {
		Job
		Handler string // takes the place of Job's
		Notify  any    `json:",omitempty"`
	}{j, identify(j.Handler), j.Notify.described()})
}

// ScheduleHash is a fingerprint of what decides the due times: schedules and zone.
func (j Job) ScheduleHash() string {
	return fingerprint(struct {
		Schedules []string
		Timezone  string
	}{j.spelled(), j.WithDefaults().Timezone})
}

// Hash is a fingerprint of the whole definition, as a job's.
func (p Pool) Hash() string {
	p = p.WithDefaults()
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

// spelled is the job's expressions with single blanks, in a fixed order.
func (j Job) spelled() []string {
	specs := []string{}
	for _, spec := range j.Specs() {
		specs = append(specs, strings.Join(strings.Fields(spec), " "))
	}
	slices.Sort(specs)
	return slices.Compact(specs)
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// identify says what tells a handler from others; of one that does not say, only the type is known.
func identify(h Handler) string {
	if h == nil {
		return ""
	}
	if i, ok := As[Identified](h); ok {
		return i.Identity()
	}
	if d, ok := As[Described](h); ok {
		return d.Describe()
	}
	return fmt.Sprintf("%T", innermost(h))
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
