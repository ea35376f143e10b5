package config

import (
	"bytes"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// reuse is what an incremental load takes from the one before it.
type reuse struct {
	from  *Config
	names map[string]bool // of the jobs whose texts are as they were
	whole bool            // that is not sure: everything is to be read
}

// reusedText is the text of a job that is as it was; the zero value: it is not.
type reusedText struct {
	name   string
	digest digest
}

// loadIncremental is LoadBytes that reuses jobs of o.Previous; nil: everything is to be read.
func loadIncremental(path string, data []byte, o Options) *Config {
	if o.Previous == nil || o.Previous.origin == nil || !o.Previous.origin.madeWith(o) {
		return nil
	}
	r := newReader(path, data, o)
	r.reuse = &reuse{from: o.Previous, names: make(map[string]bool, len(o.Previous.Set.Jobs))}
	for _, file := range o.Previous.origin.programs {
		if !r.executable(file) { // the jobs that name it have a warning now
			return nil
		}
	}
	r.load(data)
	if r.reuse.whole || r.report.errors() != nil {
		return nil
	}
	r.c.Warnings = r.warnings.errors()
	return r.c
}

// parseIncremental parses of a file what is not as it was: what is beside the jobs, and the jobs with another text. A file of which more than half of the
// jobs have one is parsed whole, as are those without texts of jobs. It is not sure what is to be reused where what is beside the jobs has changed, and where anything is wrong.
func (r *reader) parseIncremental(s *source, data []byte) bool {
	before, known := r.reuse.from.origin.files[s.full]
	if known && !before.cut {
		return before.beside == digestOf(data) && r.parseWhole(s, data)
	}
	t, found := s.cut()
	if !known || !found || before.beside != s.beside() {
		return false
	}
	reused := make([]reusedText, len(t.starts))
	var others []int // the indexes of texts that are not as they were
	for i := range t.starts {
		sum := s.digest(t.of(data, i))
		if name, has := r.reuse.from.origin.jobs[sum]; has {
			reused[i] = reusedText{name, sum}
		} else {
			others = append(others, i)
		}
	}
	if len(others) > len(t.starts)/2 || before.grown > maxGrowth {
		if !r.parseWhole(s, data) {
			return false
		}
		_, single := s.names() // else a job may go on in what was beside the jobs
		return single
	}
	root, err := document(t.around(data))
	if err != nil {
		return false
	}
	place := jobsValue(root, t.lines[0]-1)
	if place == nil {
		return false
	}
	if s.root, s.reused, s.grown = root, reused, before.grown; len(others) > 0 {
		if *place = r.parseTexts(s, others); *place == nil {
			return false
		}
	}
	for _, text := range reused {
		if r.reuse.names[text.name] {
			return false // it is there twice
		}
		if text.name != "" {
			r.reuse.names[text.name] = true
		}
	}
	return sound(s, &r.report) && s.grown <= maxGrowth
}

// parseTexts parses some texts of the jobs of a file together, below what is before the jobs, where their anchors may be. They have their positions in the file. Nil: a
// text is not what its lines say, or has an anchor, which another text may mean.
func (r *reader) parseTexts(s *source, indexes []int) *yaml.Node {
	text := slices.Clone(s.data[:s.texts.from])
	first := s.texts.lines[0]
	line := first
	var lines []int
	for _, i := range indexes {
		one := s.texts.of(s.data, i)
		text, lines = append(text, one...), append(lines, line)
		line += bytes.Count(one, []byte("\n"))
	}
	root, err := document(text)
	if err != nil {
		return nil
	}
	file := &source{name: s.name, root: root}
	if !sound(file, &r.report) || file.anchored(first, line) {
		return nil
	}
	s.grown += file.grown
	all := jobsMap(root, first-1)
	if all == nil {
		return nil
	}
	parts := entries(all.Content, lines)
	if parts == nil {
		return nil
	}
	for k, i := range indexes {
		for _, n := range parts[k] {
			moved(n, s.texts.lines[i]-lines[k])
		}
	}
	return all
}

// moved adds lines to the positions of a tree.
func moved(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moved(child, lines)
	}
}

// reuseJobs adds the jobs that are reused to those that were read, unless a file is missing, or those are wrong beside them, as by their names.
func (r *reader) reuseJobs(files []*source) {
	from, read := r.reuse.from, r.c.Set.Jobs
	all := make(map[string]jobs.Job, len(read)+len(r.reuse.names))
	maps.Copy(all, read)
	for _, s := range files {
		for _, text := range s.reused {
			if job, has := from.Set.Jobs[text.name]; has {
				all[text.name] = job
				r.jobs.order = append(r.jobs.order, text.name)
			}
		}
	}
	r.c.Set.Jobs = all
	r.reuse.whole = len(files) != len(from.origin.files) || len(all) != len(read)+len(r.reuse.names) ||
		r.c.Set.ValidateChanged(from.Set, slices.Collect(maps.Keys(read))) != nil
}
