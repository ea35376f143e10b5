package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// leastPart is how many jobs are read together at least.
const leastPart = 5_000

// jobsPart reads and validates some of the jobs of a file, while others do the same with the rest: 100,000 take a while. It has a reader of
// its own, which shares with that of the whole what is only read meanwhile.
type jobsPart struct {
	*reader
	entries []jobEntry
	jobs    map[string]jobs.Job
	wrong   error // of them, by Set.ValidateChanged: pools and calendars are validated once, with the whole
}

// jobEntry is one job as it stands in the file.
type jobEntry struct {
	key, value *yaml.Node
	named      bool // its name is valid, and not taken
}

func (r *reader) readJobs(n *yaml.Node) {
	if len(r.jobs.first) == 0 { // allocated once
		r.jobs.first = make(map[string]place, len(deref(n).Content)/2)
	}
	entries := make([]jobEntry, 0, len(deref(n).Content)/2)
	r.each(n, func(key, value *yaml.Node) {
		entries = append(entries, jobEntry{key, value, r.reserve(&r.jobs, key, value)})
	})
	var parts []*jobsPart
	processors := r.atOnce()
	var all errgroup.Group
	all.SetLimit(processors)
	for some := range slices.Chunk(entries, max(leastPart, len(entries)/(2*processors))) {
		part := &jobsPart{reader: r.fork(), entries: some, jobs: make(map[string]jobs.Job, len(some))}
		parts = append(parts, part)
		all.Go(func() error { part.read(); return nil })
	}
	_ = all.Wait() // what is wrong is in the parts
	if len(r.c.Set.Jobs) == 0 {
		r.c.Set.Jobs = make(map[string]jobs.Job, len(entries)) // allocated once
	}
	for _, part := range parts {
		maps.Copy(r.c.Set.Jobs, part.jobs)
		r.join(part.reader)
		r.wrong = append(r.wrong, part.wrong)
	}
}

func (p *jobsPart) read() {
	d := new(jobDraft) // one for all, which is overwritten
	for _, entry := range p.entries {
		warned, opened := p.warnings.added, len(p.openings)
		p.within(entry.key.Value, func() {
			*d = p.defaults
			object(p.reader, entry.value, jobKeys, d)
			p.dropDefaultDelays(entry.value, &d.Job)
			d.Handler = p.handler(entry.value, d.handlerDraft)
			d.Notify = d.notify.notify()
			p.dropDefaultSlots(entry.value, &d.Job)
			if len(p.defaults.Retries.On) > 0 && !p.hasCodes(entry.value) {
				p.dropDefaultCodes(&d.Job)
			}
		})
		if entry.named {
			p.jobs[entry.key.Value] = d.Job
		}
		if p.warnings.added > warned || len(p.openings) > opened {
			p.volatile[entry.key.Value] = true
		}
	}
	set := p.c.Set
	set.Jobs = p.jobs
	p.wrong = set.ValidateChanged(jobs.Set{}, slices.Collect(maps.Keys(p.jobs)))
}

// fork returns a reader that can be used beside r and others, until join.
func (r *reader) fork() *reader {
	own := *r
	own.path = slices.Clone(r.path)
	own.report, own.warnings = r.report.clone(), report{}
	own.programs, own.doubtful, own.volatile = map[string]bool{}, map[string]bool{}, map[string]bool{}
	own.openings = nil
	own.options.Opened = func(path string, content []byte) { own.openings = append(own.openings, opening{path, content}) } // one after the other
	return &own
}

// join takes over what a forked reader has found.
func (r *reader) join(own *reader) {
	r.report.join(own.report)
	r.warnings.join(own.warnings)
	maps.Copy(r.programs, own.programs)
	maps.Copy(r.doubtful, own.doubtful)
	maps.Copy(r.volatile, own.volatile)
	for _, o := range own.openings {
		r.options.opened(o.path, o.content)
	}
}
